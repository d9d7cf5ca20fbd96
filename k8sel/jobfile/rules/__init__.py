"""Rules for a job file that decodes: one small pure function for each rule, grouped by subject."""
