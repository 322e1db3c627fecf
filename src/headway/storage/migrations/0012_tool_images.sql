-- Images in the results of tools, as JSON: a list of media types and base64 data.
ALTER TABLE effects ADD COLUMN images TEXT NOT NULL DEFAULT '';
