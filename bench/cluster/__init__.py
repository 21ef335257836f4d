"""Several hosts on one machine: real processes, a PostgreSQL, an S3 server and nginx of their own."""
