{{/*
The launchers' command lines around the user's own, as JSON lists (k8sel/planning/launch.py). Words are the user's own until
k8sel.literal writes them such that Kubernetes leaves them as they are.
*/}}

{{/* The whole command of a node, or of an MPI's launcher. */}}
{{- define "k8sel.command" -}}
{{- $gate := .launcher.usesMpi | ternary "gate" "" -}}
{{- $before := include "k8sel.before" (list . $gate) | mustFromJson -}}
{{- concat $before (include "k8sel.launch" . | mustFromJson) | toJson -}}
{{- end -}}

{{/* The words that start the entrypoint in a mode; none where the job goes without it. Takes the plan and the mode. */}}
{{- define "k8sel.entry" -}}
{{- $plan := index . 0 -}}
{{- $own := $plan.facts.entrypoint -}}
{{- $words := list -}}
{{- if eq $plan.spec.entrypoint.mode "configMap" -}}
{{- $words = list "/bin/sh" (printf "%s/%s" $own.folder $own.script) -}}
{{- else if eq $plan.spec.entrypoint.mode "image" -}}
{{- $words = list $own.builtIn -}}
{{- end -}}
{{- if $words }}{{ $words = concat $words (compact (list (index . 1))) }}{{ end -}}
{{- toJson $words -}}
{{- end -}}

{{/* The same in front of a command. */}}
{{- define "k8sel.before" -}}
{{- $words := include "k8sel.entry" . | mustFromJson -}}
{{- if $words }}{{ $words = append $words "--" }}{{ end -}}
{{- toJson $words -}}
{{- end -}}

{{- define "k8sel.launch" -}}
{{- $spec := .spec -}}
{{- $rank := include "k8sel.before" (list . "rank") | mustFromJson -}}
{{- $program := include "k8sel.program" . -}}
{{- if not $program -}}
{{- include "k8sel.literal" $spec.command -}}
{{- else if .launcher.usesMpi -}}
{{- $settled := include "k8sel.settled" . | mustFromJson -}}
{{- $asked := dict "plan" . "perNode" $spec.processesPerNode "binding" (default "" $spec.mpi.binding) "settled" $settled -}}
{{- $mpirun := include "k8sel.mpirun" $asked -}}
{{- concat (mustFromJson $mpirun) $rank $spec.command | include "k8sel.literal" -}}
{{- else -}}
{{- $command := $spec.command -}}
{{- if include "k8sel.startsModeRank" . }}{{ $command = concat $rank $command }}{{ end -}}
{{- include (printf "k8sel.%s" $program) (list . $command) -}}
{{- end -}}
{{- end -}}

{{/* Not empty where the launcher starts each rank behind the entrypoint's mode rank. Takes the plan. */}}
{{- define "k8sel.startsModeRank" -}}
{{- if or .launcher.usesMpi (and (not .launcher.startsOne) (eq .spec.accelerator.isolation "process")) }}yes{{ end -}}
{{- end -}}

{{/* What starts a node's processes; "" for nothing but the command. */}}
{{- define "k8sel.program" -}}
{{- .spec.accelerator.devices | empty | ternary .launcher.programWithoutDevices .launcher.program | default "" -}}
{{- end -}}

{{/* Takes the plan and the command. */}}
{{- define "k8sel.torchrun" -}}
{{- $plan := index . 0 -}}
{{- $words := list "torchrun" "--nproc-per-node" (int64 $plan.spec.processesPerNode | toString) -}}
{{- $restarts := include "k8sel.restarts" (list $plan "--max-restarts") | mustFromJson -}}
{{- $command := include "k8sel.plain" (index . 1) | mustFromJson -}}
{{- $script := include "k8sel.script" (list $command "--no-python") | mustFromJson -}}
{{- concat $words $restarts $script | include "k8sel.literal" -}}
{{- end -}}

{{/*
Takes the plan and the command. Every number is written, or accelerate takes it from PET_ variables, from a file in the
image, or by counting. What the operator knows is filled in by Kubernetes, so these words are no literal text.
*/}}
{{- define "k8sel.accelerate" -}}
{{- $plan := index . 0 -}}
{{- $spec := $plan.spec -}}
{{- $total := mul $spec.nodes $spec.processesPerNode -}}
{{- $words := list "accelerate" "launch" -}}
{{- $command := index . 1 -}}
{{- if gt $total 1 -}}
{{- $words = append $words "--multi_gpu" -}}
{{- $command = include "k8sel.plain" $command | mustFromJson -}}
{{- end -}}
{{- $words = concat $words (list "--num_processes" (toString $total) "--num_machines" (int64 $spec.nodes | toString)) -}}
{{- $words = concat $words (list "--machine_rank" "$(PET_NODE_RANK)" "--main_process_ip" "$(PET_MASTER_ADDR)") -}}
{{- $words = concat $words (list "--main_process_port" "$(PET_MASTER_PORT)" "--rdzv_backend" "static" "--same_network") -}}
{{- $words = concat $words (list "--gpu_ids" "all") -}}
{{- $restarts := include "k8sel.restarts" (list $plan "--max_restarts") | mustFromJson -}}
{{- $script := include "k8sel.script" (list $command "--no_python") | mustFromJson | include "k8sel.literal" | mustFromJson -}}
{{- concat $words $restarts $script | toJson -}}
{{- end -}}

{{/* Takes the plan and the option's name. */}}
{{- define "k8sel.restarts" -}}
{{- $restarts := int (index . 0).spec.policy.maxRestarts -}}
{{- ternary (list (index . 1) (toString $restarts)) list (gt $restarts 0) | toJson -}}
{{- end -}}

{{/* A command as torchrun and accelerate want it: a script, a module, or any other program behind their option. */}}
{{- define "k8sel.script" -}}
{{- $command := index . 0 -}}
{{- $arguments := rest $command -}}
{{- $python := and $arguments (has (first $command) (list "python" "python3")) -}}
{{- if and $python (not (hasPrefix "-" (first $arguments))) -}}
{{- include "k8sel.positional" $arguments -}}
{{- else if and $python (eq (first $arguments) "-m") (rest $arguments) -}}
{{- concat (list "-m") (include "k8sel.positional" (rest $arguments) | mustFromJson) | toJson -}}
{{- else -}}
{{- concat (list (index . 1)) (include "k8sel.positional" $command | mustFromJson) | toJson -}}
{{- end -}}
{{- end -}}

{{/* Words behind argparse, which drops a -- right after the first. */}}
{{- define "k8sel.positional" -}}
{{- $tail := rest . -}}
{{- if $tail }}{{ if eq (first $tail) "--" }}{{ $tail = concat (list "--") $tail }}{{ end }}{{ end -}}
{{- concat (list (first .)) $tail | toJson -}}
{{- end -}}

{{/* A command such that torch's agent leaves it alone: it fills in ${local_rank} and reads $$ as $ in arguments. */}}
{{- define "k8sel.plain" -}}
{{- $words := list (first .) -}}
{{- range rest . -}}
{{- $read := or (contains "$$" .) (contains "$local_rank" .) (contains "${local_rank}" .) -}}
{{- $words = append $words (ternary (replace "$" "$$" .) . $read) -}}
{{- end -}}
{{- toJson $words -}}
{{- end -}}

{{/* Words such that Kubernetes fills nothing in. */}}
{{- define "k8sel.literal" -}}
{{- $words := list -}}
{{- range . }}{{ $words = append $words (replace "$" "$$" .) }}{{ end -}}
{{- toJson $words -}}
{{- end -}}
