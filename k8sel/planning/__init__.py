"""Every decision, made once: a valid job becomes a JobPlan. No I/O."""
