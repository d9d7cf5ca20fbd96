{{/*
torch.distributed's backend, and oneCCL: what fits the command, the devices and the launcher (k8sel/jobfile/rules/backend.py).
Each takes what those of _refusals.tpl take. That there is such a backend is the schema's to say.
*/}}

{{/* The type, or the one without devices where none is used. */}}
{{- define "k8sel.computesOn" -}}
{{- $row := default dict .plan.row -}}
{{- if and $row.maskEnv (not .asked.devices) }}{{ .words.withoutDevices }}{{ else }}{{ .asked.type }}{{ end -}}
{{- end -}}

{{- define "k8sel.refusals.backend" -}}
{{- $spec := .spec -}}
{{- $backend := default "" $spec.backend -}}
{{- $named := include "k8sel.namedBackend" .plan | mustFromJson -}}
{{- $path := "spec.backend" -}}
{{- if eq $named.name $backend }}{{ $path = printf "spec.command[%d]" (int $named.index) }}{{ end -}}
{{- if and $backend $named.name (ne $named.name $backend) -}}
{{- $message := printf "the command names another, %s, and the program uses that one" (include "k8sel.bare" $named.name) -}}
{{- include "k8sel.refuse" (list .found "spec.backend" "invalid" $message "leave backend out, or change the command") -}}
{{- end -}}
{{- with get .plan.backends $backend -}}
{{- $type := include "k8sel.computesOn" $ -}}
{{- if and (hasKey $.rows $type) .accelerators (not (has $type .accelerators)) -}}
{{- $fitting := list -}}
{{- range $.words.backends -}}
{{- $types := (get $.plan.backends .).accelerators -}}
{{- if or (not $types) (has $type $types) }}{{ $fitting = append $fitting . }}{{ end -}}
{{- end -}}
{{- $message := printf "backend %s is for processes on %s, and these compute on %s" $backend (join " or " .accelerators) $type -}}
{{- include "k8sel.refuse" (list $.found $path "invalid" $message (join " or " $fitting)) -}}
{{- end -}}
{{- $several := gt (mul $spec.nodes $spec.processesPerNode) 1 -}}
{{- if and $several .launchers (not (has $spec.launcher .launchers)) -}}
{{- $wanted := join " or " .launchers -}}
{{- $message := printf "backend %s takes ranks from %s: by launcher %s, each would be alone" $backend $wanted $spec.launcher -}}
{{- include "k8sel.refuse" (list $.found $path "invalid" $message (printf "launcher: %s, or %s" $wanted .instead)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "k8sel.refusals.ccl" -}}
{{- $oneccl := include "k8sel.usesOneccl" .plan -}}
{{- if $oneccl -}}
{{- include "k8sel.refusals.workers" . -}}
{{- include "k8sel.refusals.transport" . -}}
{{- else if .spec.ccl -}}
{{- $type := include "k8sel.computesOn" . -}}
{{- $backends := .plan.backends -}}
{{- $fitting := list -}}
{{- range .words.backends -}}
{{- $row := get $backends . -}}
{{- if and $row.oneccl (or (not $row.accelerators) (has $type $row.accelerators)) }}{{ $fitting = append $fitting . }}{{ end -}}
{{- end -}}
{{- $message := "no backend is named, so nothing uses oneCCL" -}}
{{- with .spec.backend }}{{ $message = printf "backend %s uses no oneCCL" . }}{{ end -}}
{{- $hint := "leave ccl out" -}}
{{- with $fitting }}{{ $hint = printf "%s, or backend: %s" $hint (join " or " .) }}{{ end -}}
{{- include "k8sel.refuse" (list .found "spec.ccl" "forbidden" $message $hint) -}}
{{- end -}}
{{- end -}}

{{/* oneCCL takes one core for each worker of the node. */}}
{{- define "k8sel.refusals.workers" -}}
{{- $affinity := default "auto" .spec.ccl.workerAffinity -}}
{{- if ne $affinity "auto" -}}
{{- $path := "spec.ccl.workerAffinity" -}}
{{- $cores := 0 -}}
{{- $backwards := list -}}
{{- range splitList "," $affinity -}}
{{- $ends := splitList "-" . -}}
{{- $first := first $ends | atoi -}}
{{- $last := last $ends | atoi -}}
{{- $cores = add $cores (sub $last $first) 1 -}}
{{- if and (gt $first $last) (not $backwards) }}{{ $backwards = list $first $last }}{{ end -}}
{{- end -}}
{{- $processes := int .spec.processesPerNode -}}
{{- $workers := int .spec.ccl.workers -}}
{{- $needed := mul $processes $workers -}}
{{- if $backwards -}}
{{- $message := printf "%d-%d begins with the higher core" (first $backwards) (last $backwards) -}}
{{- include "k8sel.refuse" (list .found $path "invalid" $message (printf "%d-%d" (last $backwards) (first $backwards))) -}}
{{- else if ne $cores $needed -}}
{{- $message := printf "%d cores, and %d x %d workers of a node need %d" $cores $processes $workers $needed -}}
{{- include "k8sel.refuse" (list .found $path "invalid" $message "auto, or a core for each worker of the node") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* oneCCL sends by MPI only where its processes are MPI's. */}}
{{- define "k8sel.refusals.transport" -}}
{{- $spec := .spec -}}
{{- $variable := .plan.facts.backends.variables.transport -}}
{{- $own := include "k8sel.launcherCcl" .plan | mustFromJson -}}
{{- if and (eq (default "" $spec.ccl.transport) "mpi") (ne (get $own $variable) "mpi") -}}
{{- $mpis := .plan.mpis -}}
{{- $fitting := list -}}
{{- range .words.mpis }}{{ if eq (get (get $mpis .).ccl $variable) "mpi" }}{{ $fitting = append $fitting . }}{{ end }}{{ end -}}
{{- $found := printf "launcher %s" $spec.launcher -}}
{{- if eq $spec.launcher "mpirun" }}{{ $found = $spec.mpi.implementation }}{{ end -}}
{{- $message := printf "transport mpi is for launcher mpirun with %s, and this is %s" (join " or " $fitting) $found -}}
{{- include "k8sel.refuse" (list .found "spec.ccl.transport" "invalid" $message "leave transport out, or transport: ofi") -}}
{{- end -}}
{{- end -}}

{{/* Variables that a field of ccl, or what mpirun binds to, has said already. */}}
{{- define "k8sel.refusals.said" -}}
{{- $found := .found -}}
{{- $backend := .spec.backend -}}
{{- $binding := .spec.mpi.binding -}}
{{- $fields := dict -}}
{{- if include "k8sel.usesOneccl" .plan -}}
{{- $variables := .plan.facts.backends.variables -}}
{{- range $field, $_ := .spec.ccl }}{{ $_ := set $fields (get $variables $field) $field }}{{ end -}}
{{- end -}}
{{- $bound := include "k8sel.boundBy" .plan | mustFromJson -}}
{{- range $index, $entry := .spec.env -}}
{{- $path := printf "spec.env[%d].name" $index -}}
{{- $written := printf "%s is not for the job file: k8sel writes it for" $entry.name -}}
{{- with get $fields $entry.name -}}
{{- include "k8sel.refuse" (list $found $path "forbidden" (printf "%s backend %s" $written $backend) (printf "ccl.%s says it" .)) -}}
{{- end -}}
{{- if has $entry.name $bound -}}
{{- include "k8sel.refuse" (list $found $path "forbidden" (printf "%s mpi.binding %s" $written $binding) "mpi.binding says it") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The variables that mpirun's words for a binding set, as a JSON list. Takes the plan. */}}
{{- define "k8sel.boundBy" -}}
{{- $names := list -}}
{{- if eq .spec.launcher "mpirun" -}}
{{- $set := first .mpi.set -}}
{{- $before := "" -}}
{{- range get .mpi.binding (default "" .spec.mpi.binding) -}}
{{- if eq $before $set }}{{ $names = append $names (splitList "=" . | first) }}{{ end -}}
{{- $before = . -}}
{{- end -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{/* Processes and threads by CPUs. */}}
{{- define "k8sel.refusals.cpu" -}}
{{- $core := and (eq .spec.launcher "mpirun") (eq (default "" .spec.mpi.binding) "core") -}}
{{- if and $core (not .spec.cpu.threadsPerProcess) -}}
{{- $message := "with mpi.binding core, a process has as many cores as threads" -}}
{{- $hint := "threadsPerProcess: 4, say, or mpi.binding: socket" -}}
{{- include "k8sel.refuse" (list .found "spec.cpu.threadsPerProcess" "required" $message $hint) -}}
{{- end -}}
{{- if .spec.cpu.processPer -}}
{{- $message := "only `k8sel run` and `k8sel docker` know the machine" -}}
{{- include "k8sel.refuse" (list .found "spec.cpu.processPer" "forbidden" $message "processesPerNode says it for a cluster's nodes") -}}
{{- end -}}
{{- end -}}
