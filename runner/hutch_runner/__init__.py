"""What runs the user's code inside a sandbox. Standard library only; holds no secret, decides nothing."""
