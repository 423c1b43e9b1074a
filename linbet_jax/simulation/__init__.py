"""Many replications of one policy on one bandit: checks, the compiled pull loop, and the cores or cards it runs on."""
