"""Names and addresses that the settings read: no Django here."""
