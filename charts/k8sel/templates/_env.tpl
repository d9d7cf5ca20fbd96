{{/* Variables as JSON lists of Kubernetes' entries (k8sel/planning/env.py, and _env of k8sel/planning/planner.py). */}}

{{/* What the entrypoint would write, where it is a constant: nobody looks for devices, or there are none. */}}
{{- define "k8sel.settled" -}}
{{- $bare := eq .spec.entrypoint.mode "none" -}}
{{- $entries := list -}}
{{- if or $bare (not .devices.positions) }}{{ $entries = .devices.mask }}{{ end -}}
{{- if and $bare .spec.cpu.threadsPerProcess -}}
{{- $entries = append $entries (dict "name" "OMP_NUM_THREADS" "value" (int64 .spec.cpu.threadsPerProcess | toString)) -}}
{{- end -}}
{{- toJson $entries -}}
{{- end -}}

{{/* A job's variables in their final order, all but the expectation. */}}
{{- define "k8sel.env" -}}
{{- $constants := concat .devices.exposure (include "k8sel.settled" . | mustFromJson) | default list -}}
{{- if .launcher.usesMpi -}}
{{- $first := printf "%s-worker-0.%s" .name .name -}}
{{- $constants = concat $constants (list (dict "name" "MASTER_ADDR" "value" $first)) .facts.mpi.constants -}}
{{- end -}}
{{- if not .spec.accelerator.devices -}}
{{- range $name, $value := .launcher.envWithoutDevices }}{{ $constants = append $constants (dict "name" $name "value" $value) }}{{ end -}}
{{- end -}}
{{- $constants = include "k8sel.ccl" . | mustFromJson | concat $constants -}}
{{- $entries := include "k8sel.constants" $constants | mustFromJson -}}
{{- range .spec.env -}}
{{- if hasKey . "valueFrom" -}}
{{- $entries = append $entries (pick . "name" "valueFrom") -}}
{{- else -}}
{{- $entries = append $entries (dict "name" .name "value" (default "" .value)) -}}
{{- end -}}
{{- end -}}
{{- include "k8sel.mergedEnv" $entries -}}
{{- end -}}

{{/* Entries with their values meant literally. */}}
{{- define "k8sel.constants" -}}
{{- $entries := list -}}
{{- range . }}{{ $entries = append $entries (dict "name" .name "value" (replace "$" "$$" .value)) }}{{ end -}}
{{- toJson $entries -}}
{{- end -}}

{{/* Each name once, the last entry counts: constants, then what is read elsewhere, then what refers to these. */}}
{{- define "k8sel.mergedEnv" -}}
{{- $last := dict -}}
{{- $names := list -}}
{{- range . }}{{ $_ := set $last .name . }}{{ $names = append $names .name }}{{ end -}}
{{- $constants := list -}}
{{- $read := list -}}
{{- $referring := list -}}
{{- range uniq $names -}}
{{- $entry := get $last . -}}
{{- if hasKey $entry "valueFrom" -}}
{{- $read = append $read $entry -}}
{{- else if include "k8sel.refers" $entry.value -}}
{{- $referring = append $referring $entry -}}
{{- else -}}
{{- $constants = append $constants $entry -}}
{{- end -}}
{{- end -}}
{{- concat $constants $read $referring | default list | toJson -}}
{{- end -}}

{{/* Not empty where a value refers to other variables. */}}
{{- define "k8sel.refers" -}}
{{- if regexMatch `\$\([-._a-zA-Z][-._a-zA-Z0-9]*\)` (replace "$$" "" .) }}yes{{ end -}}
{{- end -}}

{{/* Not empty where each pod may have a value of its own. */}}
{{- define "k8sel.ofItsPod" -}}
{{- $from := default dict .valueFrom -}}
{{- if or (hasKey $from "fieldRef") (hasKey $from "resourceFieldRef") (include "k8sel.refers" (default "" .value)) }}yes{{ end -}}
{{- end -}}

{{/* The job's variables, then others, and what the entrypoint is told. Takes the plan and the others. */}}
{{- define "k8sel.told" -}}
{{- $plan := index . 0 -}}
{{- $entries := concat (include "k8sel.env" $plan | mustFromJson) (include "k8sel.constants" (index . 1) | mustFromJson) -}}
{{- if ne $plan.spec.entrypoint.mode "none" -}}
{{- $told := dict "name" $plan.facts.entrypoint.variable "value" (include "k8sel.expectation" $plan) -}}
{{- $entries = concat $entries (include "k8sel.constants" (list $told) | mustFromJson) -}}
{{- end -}}
{{- default list $entries | include "k8sel.mergedEnv" -}}
{{- end -}}

{{/* What the entrypoint is told to find, as JSON without what is at its default (k8sel/entrypoint/protocol.py). */}}
{{- define "k8sel.expectation" -}}
{{- $spec := .spec -}}
{{- $shared := include "k8sel.whole" (dict "plan" . "quantity" $spec.sharedMemory) | int64 -}}
{{- $told := dict "version" .facts.entrypoint.version "job" .name "jobFile" .sha256 -}}
{{- include "k8sel.lay" (list $told (dict "accelerator" $spec.accelerator.type "devices" .devices.positions)) -}}
{{- if .launcher.usesMpi -}}
{{- $check := include "k8sel.entry" (list . "check") | mustFromJson -}}
{{- $mpirun := include "k8sel.mpirun" (dict "plan" . "perNode" 1 "binding" "" "settled" list) | mustFromJson -}}
{{- include "k8sel.lay" (list $told (dict "probe" (concat $mpirun $check) "hostfile" (last .mpi.hostfile))) -}}
{{- end -}}
{{- if include "k8sel.startsModeRank" . }}{{ $_ := set $told "rankCommand" (len $spec.command) }}{{ end -}}
{{- $others := dict "order" $spec.accelerator.order "isolation" $spec.accelerator.isolation "launcher" $spec.launcher -}}
{{- include "k8sel.lay" (list $others (dict "backend" (default "" $spec.backend) "mpi" (default "" $spec.mpi.implementation))) -}}
{{- include "k8sel.lay" (list $others (dict "nodes" $spec.nodes "processesPerNode" $spec.processesPerNode "check" $spec.entrypoint.check)) -}}
{{- include "k8sel.lay" (list $others (dict "product" .devices.product "memory" (int64 .devices.memory) "sharedMemory" $shared)) -}}
{{- if .devices.positions }}{{ $_ := set $others "count" .devices.count }}{{ end -}}
{{- $_ := set $others "threadsPerProcess" (default 0 $spec.cpu.threadsPerProcess) -}}
{{- $defaults := .facts.entrypoint.defaults -}}
{{- range $key, $value := $others -}}
{{- if and $value (ne (toString $value) (get $defaults $key | toString)) }}{{ $_ := set $told $key $value }}{{ end -}}
{{- end -}}
{{- toJson $told -}}
{{- end -}}
