"""PostgreSQL as the source of truth; only this folder imports psycopg."""
