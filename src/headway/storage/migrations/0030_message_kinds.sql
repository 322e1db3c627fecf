-- What a message is: text that a person or an agent wrote, the runtime's closing words at the end of a turn, or the part of an answer
-- that was written when the turn was stopped.
ALTER TABLE messages ADD COLUMN kind TEXT NOT NULL DEFAULT 'text';
