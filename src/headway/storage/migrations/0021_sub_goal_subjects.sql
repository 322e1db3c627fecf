-- Events of sub-goals name their goal as the subject, so that a goal's versions are read through the index. Their data begins with
-- {"goal_id":N, and the number is read up to the comma.
UPDATE events SET subject = 'goal:' || CASE
    WHEN substr(data, 13, 1) = ',' THEN substr(data, 12, 1)
    WHEN substr(data, 14, 1) = ',' THEN substr(data, 12, 2)
    WHEN substr(data, 15, 1) = ',' THEN substr(data, 12, 3)
    WHEN substr(data, 16, 1) = ',' THEN substr(data, 12, 4)
    WHEN substr(data, 17, 1) = ',' THEN substr(data, 12, 5)
    WHEN substr(data, 18, 1) = ',' THEN substr(data, 12, 6)
    WHEN substr(data, 19, 1) = ',' THEN substr(data, 12, 7)
    WHEN substr(data, 20, 1) = ',' THEN substr(data, 12, 8)
    WHEN substr(data, 21, 1) = ',' THEN substr(data, 12, 9)
    WHEN substr(data, 22, 1) = ',' THEN substr(data, 12, 10)
    WHEN substr(data, 23, 1) = ',' THEN substr(data, 12, 11)
    WHEN substr(data, 24, 1) = ',' THEN substr(data, 12, 12)
    WHEN substr(data, 25, 1) = ',' THEN substr(data, 12, 13)
    WHEN substr(data, 26, 1) = ',' THEN substr(data, 12, 14)
    WHEN substr(data, 27, 1) = ',' THEN substr(data, 12, 15)
    WHEN substr(data, 28, 1) = ',' THEN substr(data, 12, 16)
    WHEN substr(data, 29, 1) = ',' THEN substr(data, 12, 17)
    WHEN substr(data, 30, 1) = ',' THEN substr(data, 12, 18)
    WHEN substr(data, 31, 1) = ',' THEN substr(data, 12, 19)
    END
    WHERE kind = 'sub_goal_changed' AND subject IS NULL AND substr(data, 1, 11) = '{"goal_id":';
