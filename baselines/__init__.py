"""What SAGC is compared with: the table of arms, and the GRPO and DAPO specs."""
