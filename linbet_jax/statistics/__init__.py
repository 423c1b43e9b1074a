"""What is made of simulations: regret with intervals, tuning, and tables in Markdown and LaTeX."""
