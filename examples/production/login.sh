#!/bin/sh
# The image of PostgreSQL runs it once, for the role that the servers log in with.
set -eu
psql --set ON_ERROR_STOP=1 --set password="$SERVER_PASSWORD" --username "$POSTGRES_USER" \
  --dbname "$POSTGRES_DB" <<'SQL'
CREATE ROLE server LOGIN PASSWORD :'password';
SQL
