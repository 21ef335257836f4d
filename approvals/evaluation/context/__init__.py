"""What the policy is told of a call's surroundings, which its text does not say."""
