{{/* Variables as JSON lists of Kubernetes' entries (k8sel/planning/env.py, and _env of k8sel/planning/planner.py). */}}

{{/* Masks and thread counts that are fixed at plan time: no entrypoint runs, or no device is used. */}}
{{- define "k8sel.fixedEnv" -}}
{{- $bare := eq .spec.entrypoint.mode "none" -}}
{{- $entries := or $bare (empty .devices.positions) | ternary .devices.mask list -}}
{{- if and $bare .spec.cpu.threadsPerProcess -}}
{{- $entries = append $entries (dict "name" "OMP_NUM_THREADS" "value" (int64 .spec.cpu.threadsPerProcess | toString)) -}}
{{- end -}}
{{- toJson $entries -}}
{{- end -}}

{{/* A job's variables in their final order, all but the expectation. */}}
{{- define "k8sel.env" -}}
{{- $constants := concat .devices.exposure (include "k8sel.fixedEnv" . | mustFromJson) -}}
{{- if .launcher.usesMpi -}}
{{- $first := printf "%s-worker-0.%s" .name .name -}}
{{- $constants = concat $constants (list (dict "name" "MASTER_ADDR" "value" $first)) .facts.mpi.constants -}}
{{- end -}}
{{- if not .spec.accelerator.devices }}{{ $constants = concat $constants .launcher.envWithoutDevices }}{{ end -}}
{{- $constants = include "k8sel.ccl" . | mustFromJson | concat $constants -}}
{{- $entries := include "k8sel.literal" $constants | mustFromJson -}}
{{- range .spec.env -}}
{{- $constant := dict "name" .name "value" (default "" .value) -}}
{{- $entries = append $entries (hasKey . "valueFrom" | ternary (pick . "name" "valueFrom") $constant) -}}
{{- end -}}
{{- include "k8sel.mergedEnv" $entries -}}
{{- end -}}

{{/* A list in which Kubernetes replaces no $(NAME). */}}
{{- define "k8sel.literal" -}}
{{- default list . | toJson | replace "$" "$$" -}}
{{- end -}}

{{/* Each name once, with its last value: constants first, then values read elsewhere, then values that refer to these. */}}
{{- define "k8sel.mergedEnv" -}}
{{- $last := dict -}}
{{- $names := list -}}
{{- range . }}{{ $_ := set $last .name . }}{{ $names = append $names .name }}{{ end -}}
{{- $groups := dict "constant" list "read" list "referring" list -}}
{{- range uniq $names -}}
{{- $entry := get $last . -}}
{{- $group := include "k8sel.refers" (default "" $entry.value) | empty | ternary "constant" "referring" -}}
{{- if hasKey $entry "valueFrom" }}{{ $group = "read" }}{{ end -}}
{{- $_ := set $groups $group (append (get $groups $group) $entry) -}}
{{- end -}}
{{- concat $groups.constant $groups.read $groups.referring | default list | toJson -}}
{{- end -}}

{{/* Not empty if a value refers to other variables. */}}
{{- define "k8sel.refers" -}}
{{- if regexMatch `\$\([-._a-zA-Z][-._a-zA-Z0-9]*\)` (replace "$$" "" .) }}yes{{ end -}}
{{- end -}}

{{/* Not empty if the value may differ between pods. */}}
{{- define "k8sel.ofItsPod" -}}
{{- $from := default dict .valueFrom -}}
{{- if or (hasKey $from "fieldRef") (hasKey $from "resourceFieldRef") (include "k8sel.refers" (default "" .value)) }}yes{{ end -}}
{{- end -}}

{{/* The job's variables, then others, then the expectation and empty variables of the entrypoint. Takes the plan and the others. */}}
{{- define "k8sel.containerEnv" -}}
{{- $plan := index . 0 -}}
{{- $own := index . 1 -}}
{{- if ne $plan.spec.entrypoint.mode "none" -}}
{{- $own = append $own (dict "name" $plan.facts.entrypoint.variable "value" (include "k8sel.expectation" $plan)) -}}
{{- range $plan.facts.entrypoint.emptied }}{{ $own = append $own (dict "name" . "value" "") }}{{ end -}}
{{- end -}}
{{- include "k8sel.literal" $own | mustFromJson | concat (include "k8sel.env" $plan | mustFromJson) | include "k8sel.mergedEnv" -}}
{{- end -}}

{{/* The expectation as JSON, without values that equal their default (k8sel/entrypoint/protocol.py). */}}
{{- define "k8sel.expectation" -}}
{{- $expectation := dict "version" .facts.entrypoint.version "job" .name "jobFile" .sha256 "devices" .devices.positions -}}
{{- if .launcher.usesMpi -}}
{{- $check := include "k8sel.before" (list . "check") | mustFromJson | initial -}}
{{- $mpirun := include "k8sel.mpirun" (dict "plan" . "perNode" 1 "binding" "" "fixed" list) | mustFromJson -}}
{{- include "k8sel.default" (list $expectation (dict "probe" (concat $mpirun $check) "hostfile" (last .mpi.hostfile))) -}}
{{- end -}}
{{- if get .launcher.modeRank .spec.accelerator.isolation }}{{ $_ := set $expectation "rankCommand" (len .spec.command) }}{{ end -}}
{{- $shared := include "k8sel.whole" (dict "plan" . "quantity" .spec.sharedMemory) | int64 -}}
{{- if $shared }}{{ $_ := set $expectation "sharedMemory" $shared }}{{ end -}}
{{- range $name, $row := .facts.entrypoint.expected -}}
{{- $value := include "k8sel.look" (list $ $row.path) | mustFromJson -}}
{{- if and $value (ne (toString $value) (toString $row.default)) }}{{ $_ := set $expectation $name $value }}{{ end -}}
{{- end -}}
{{- toJson $expectation -}}
{{- end -}}
