-- Schema 2: what no program of one user may write, also not by hand.
-- A row's number begins with the number of its user. NOT VALID: rows that are there are
-- not read now, so that servers go on meanwhile; `vecall pg doctor` counts them.
ALTER TABLE mem ADD CONSTRAINT mem_of_part CHECK (rid >> 32 = part) NOT VALID;
ALTER TABLE item ADD CONSTRAINT item_of_part CHECK (rid >> 32 = part) NOT VALID;
ALTER TABLE chg ADD CONSTRAINT chg_of_part CHECK (rid >> 32 = part) NOT VALID;
