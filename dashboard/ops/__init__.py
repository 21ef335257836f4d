"""Look after a running desk: bootstrap, doctor, health, backups, daily tasks."""
