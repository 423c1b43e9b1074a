"""The paper's experiments: what is run, what is written, what it shows. No terminal and no JAX settings here."""
