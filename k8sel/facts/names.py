"""The names that Kubernetes derives from a job's name, and the labels and annotations that k8sel adds."""

from __future__ import annotations

LONGEST = 63  # a DNS label, a host name, a label value

LABEL_JOB = "k8sel.dev/job"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
ANNOTATION_JOB_FILE = "k8sel.dev/job-file-sha256"
MANAGER = "k8sel"
LABEL_QUEUE = "kueue.x-k8s.io/queue-name"  # Kueue reads the queue of a job there
