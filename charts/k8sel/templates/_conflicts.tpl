{{/*
Fields that contradict each other: the rows of files/conflicts.json (k8sel/jobfile/rules/conflicts.py says what a row is).
Takes plan, view (what the rows' paths begin with) and found, the list that grows.
*/}}
{{- define "k8sel.conflicts" -}}
{{- range .plan.conflicts -}}
{{- $met := ne .kind "warning" -}}
{{- range $path, $wanted := .when }}{{ if $met }}{{ $met = include "k8sel.meets" (list $.view $path $wanted) }}{{ end }}{{ end -}}
{{- if $met -}}
{{- $words := list $.found -}}
{{- range list .path .kind .message .hint }}{{ $words = append $words (include "k8sel.filled" (list $.view .)) }}{{ end -}}
{{- include "k8sel.refuse" $words -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The values of a job that conditions can name. Takes the plan. */}}
{{- define "k8sel.view" -}}
{{- $spec := .spec -}}
{{- $facts := .facts.refusals -}}
{{- $named := include "k8sel.namedBackend" . | mustFromJson -}}
{{- $path := printf "spec.command[%d]" (int $named.index) -}}
{{- $path = eq $named.name (default "" $spec.backend) | ternary $path "spec.backend" -}}
{{- $command := dict "backend" $named.name "backendPath" $path -}}
{{- $computes := $spec.accelerator.type -}}
{{- if and .row.maskEnv (not $spec.accelerator.devices) }}{{ $computes = $facts.withoutDevices }}{{ end -}}
{{- $view := dict "on" "kubernetes" "spec" $spec "facts" $facts.conflicts "user" .user "command" $command "mpi" .mpi -}}
{{- $devices := len $spec.accelerator.devices -}}
{{- $some := printf "%d device%s" $devices (eq $devices 1 | ternary "" "s") -}}
{{- $job := dict "root" .root "mpiGiven" (not (empty $spec.mpi)) "devices" $devices "someDevices" $some -}}
{{- $units := list -}}
{{- range .row.unitCounts }}{{ $units = append $units (mul . $devices) }}{{ end -}}
{{- $_ := set $job "units" $units -}}
{{- $_ := set $job "firstDevices" (eq (toJson $spec.accelerator.devices) (until $devices | toJson)) -}}
{{- $_ := set $job "processes" (mul $spec.nodes $spec.processesPerNode) -}}
{{- $_ := set $job "pairs" (mul $job.processes (max 1 $devices)) -}}
{{- $amounts := dict "deviceMemory" $spec.accelerator.memory "memory" $spec.resources.memory "cpus" $spec.resources.cpu -}}
{{- range $name, $amount := set $amounts "sharedMemory" $spec.sharedMemory -}}
{{- $_ := set $job $name (include "k8sel.whole" (dict "plan" $ "quantity" $amount) | int64) -}}
{{- end -}}
{{- $size := 0 -}}
{{- range $key, $value := omit .annotations .facts.labels.jobFile }}{{ $size = add $size (len $key) (len $value) }}{{ end -}}
{{- $_ := set $job "annotationBytes" $size -}}
{{- $backend := index .backends (default "" $spec.backend) -}}
{{- $tables := dict "launcher" .launcher "target" (get $facts.targets $spec.target) "backend" $backend -}}
{{- merge $view $tables (dict "job" $job "computes" (get $facts.computes $computes) "type" .row) | toJson -}}
{{- end -}}

{{/* The value at a path, as JSON. Takes the view and the path. */}}
{{- define "k8sel.look" -}}
{{- $value := index . 0 -}}
{{- range splitList "." (index . 1) }}{{ $value = index (kindIs "map" $value | ternary $value dict) . }}{{ end -}}
{{- toJson $value -}}
{{- end -}}

{{/* Not empty if the value at a path meets a condition. Takes the view, the path and the condition. */}}
{{- define "k8sel.meets" -}}
{{- $view := index . 0 -}}
{{- $json := include "k8sel.look" . -}}
{{- $value := mustFromJson $json -}}
{{- $texts := list -}}
{{- range kindIs "slice" $value | ternary $value (list $value) }}{{ $texts = append $texts (toJson .) }}{{ end -}}
{{- $wanted := index . 2 -}}
{{- $met := true -}}
{{- range $test, $limit := kindIs "slice" $wanted | ternary (dict "in" $wanted) $wanted -}}
{{- if kindIs "string" $limit }}{{ $limit = include "k8sel.look" (list $view $limit) | mustFromJson }}{{ end -}}
{{- $one := false -}}
{{- range kindIs "slice" $limit | ternary $limit (list $limit) }}{{ if has (toJson .) $texts }}{{ $one = true }}{{ end }}{{ end -}}
{{- $results := dict "in" $one "not" (not $one) "given" (eq (not (empty $value)) (eq (toJson $limit) "true")) -}}
{{- if has $test (list "above" "below") -}}
{{- $number := default 0 $value | float64 -}}
{{- $_ := set $results $test (eq $test "above" | ternary (gt $number $limit) (lt $number $limit)) -}}
{{- end -}}
{{- $met = and $met (get $results $test) -}}
{{- end -}}
{{- if $met }}yes{{ end -}}
{{- end -}}

{{/* A text with the values of its {paths} in it. Takes the view and the text. */}}
{{- define "k8sel.filled" -}}
{{- $view := index . 0 -}}
{{- $text := index . 1 -}}
{{- range regexFindAll `\{[a-zA-Z]+(\.[a-zA-Z]+)+,?\}` $text -1 -}}
{{- $value := trimAll "{,}" . | list $view | include "k8sel.look" | mustFromJson -}}
{{- $words := list -}}
{{- range kindIs "slice" $value | ternary $value (list $value) -}}
{{- $words = append $words (kindIs "string" . | ternary (include "k8sel.bare" (toString .)) (toJson .)) -}}
{{- end -}}
{{- $text = replace . (join (contains "," . | ternary ", " " or ") $words) $text -}}
{{- end -}}
{{- $text -}}
{{- end -}}
