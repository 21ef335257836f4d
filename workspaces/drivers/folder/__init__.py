"""The driver `folder`: a person's own folder, whose programs run as they do."""
