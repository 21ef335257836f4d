"""What a workspace may be made from: sources, images, uploads, isolation, capacity, eligibility."""
