"""Who is told what needs approval, and where the log is sent: Web Push, channels, targets."""
