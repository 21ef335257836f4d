"""Who may do what: members, roles, accounts, tokens, sign-ins, passkeys."""
