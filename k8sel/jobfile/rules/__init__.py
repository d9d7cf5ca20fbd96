"""What may be wrong in a job file that decodes: one small function a rule, by subject. Pure."""
