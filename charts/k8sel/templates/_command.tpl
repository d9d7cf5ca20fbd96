{{/*
The launchers' command lines around the user's own, as JSON lists (k8sel/planning/launch.py). Words are the user's own until
k8sel.literal writes them such that Kubernetes leaves them as they are.
*/}}

{{/* The whole command of a node, or of an MPI's launcher. */}}
{{- define "k8sel.command" -}}
{{- $program := .spec.accelerator.devices | empty | ternary .launcher.programWithoutDevices .launcher.program -}}
{{- $before := include "k8sel.before" (list . (.launcher.usesMpi | ternary "gate" "")) | mustFromJson -}}
{{- $command := .spec.command -}}
{{- if get .launcher.modeRank .spec.accelerator.isolation -}}
{{- $command = concat (include "k8sel.before" (list . "rank") | mustFromJson) $command -}}
{{- end -}}
{{- if $program -}}
{{- $started := include "k8sel.started" (list .spec (get .facts.programs $program) $command) | mustFromJson -}}
{{- concat $before $started | toJson -}}
{{- else -}}
{{- $mpirun := list -}}
{{- if .launcher.usesMpi -}}
{{- $fixed := include "k8sel.fixedEnv" . | mustFromJson -}}
{{- $options := dict "plan" . "perNode" .spec.processesPerNode "binding" (default "" .spec.mpi.binding) "fixed" $fixed -}}
{{- $mpirun = include "k8sel.mpirun" $options | mustFromJson -}}
{{- end -}}
{{- concat $before $mpirun $command | include "k8sel.literal" -}}
{{- end -}}
{{- end -}}

{{/* The words that start the entrypoint in a mode, in front of a command; none where it is not used. Takes plan and mode. */}}
{{- define "k8sel.before" -}}
{{- $plan := index . 0 -}}
{{- $words := get $plan.facts.entrypoint.starts $plan.spec.entrypoint.mode -}}
{{- if $words }}{{ $words = concat $words (list (index . 1) "--" | compact) }}{{ end -}}
{{- toJson $words -}}
{{- end -}}

{{/*
A program's command line around that of one process (k8sel/facts/launchers.py). What the operator knows is filled in by
Kubernetes, so the program's own words are no literal text. Takes the spec, the program's row and the command.
*/}}
{{- define "k8sel.started" -}}
{{- $spec := index . 0 -}}
{{- $program := index . 1 -}}
{{- $command := index . 2 -}}
{{- $total := mul $spec.nodes $spec.processesPerNode -}}
{{- if or $program.alwaysAgent (gt $total 1) }}{{ $command = include "k8sel.plain" $command | mustFromJson }}{{ end -}}
{{- $script := include "k8sel.script" (list $command $program.noPython) | mustFromJson -}}
{{- $restarts := list $program.restarts (int64 $spec.policy.maxRestarts | toString) -}}
{{- $restarted := gt (int $spec.policy.maxRestarts) 0 | ternary $restarts list -}}
{{- $words := concat $program.words (gt $total 1 | ternary $program.several list) $program.options $restarted -}}
{{- $perNode := list "{processes}" (int64 $spec.processesPerNode) -}}
{{- $numbers := list $perNode (list "{nodes}" (int64 $spec.nodes)) (list "{total}" $total) -}}
{{- $words = include "k8sel.replaced" (list $words $numbers) | mustFromJson -}}
{{- include "k8sel.literal" $script | mustFromJson | concat $words | toJson -}}
{{- end -}}

{{/* Words with values in place of names: only the last value may look like a name. Takes words, and pairs of name and value. */}}
{{- define "k8sel.replaced" -}}
{{- $pairs := index . 1 -}}
{{- $words := list -}}
{{- range $word := index . 0 -}}
{{- range $pairs }}{{ $word = replace (first .) (last . | toString) $word }}{{ end -}}
{{- $words = append $words $word -}}
{{- end -}}
{{- toJson $words -}}
{{- end -}}

{{/*
A command as torchrun and accelerate want it: a script, a module, or any other program behind their option. argparse drops
a -- right after the first word. Takes the command and the option.
*/}}
{{- define "k8sel.script" -}}
{{- $words := index . 0 -}}
{{- $option := list (index . 1) -}}
{{- $arguments := rest $words -}}
{{- if and $arguments (has (first $words) (list "python" "python3")) -}}
{{- if not (hasPrefix "-" (first $arguments)) -}}
{{- $words = $arguments -}}
{{- $option = list -}}
{{- else if and (eq (first $arguments) "-m") (rest $arguments) -}}
{{- $words = rest $arguments -}}
{{- $option = list "-m" -}}
{{- end -}}
{{- end -}}
{{- $doubled := has (first (rest $words)) (list "--") | ternary (list "--") list -}}
{{- concat $option (list (first $words)) $doubled (rest $words) | toJson -}}
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
