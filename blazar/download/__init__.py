"""Files from other machines: resumed, verified, and put in place whole or not at all."""
