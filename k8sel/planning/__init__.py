"""Makes every decision once: a valid job becomes a JobPlan. No I/O."""
