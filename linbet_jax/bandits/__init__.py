"""What is played: linear bandits, and the data sets S1 to S4 of the paper."""
