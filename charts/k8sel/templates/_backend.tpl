{{/* torch.distributed's backend, and the variables of oneCCL, which some communicate by (k8sel/facts/backends.py). */}}

{{/* The index and name of the last word of the command that names a backend, as JSON; name "" for none. Takes the plan. */}}
{{- define "k8sel.namedBackend" -}}
{{- $options := .facts.backends.options -}}
{{- $before := "" -}}
{{- $named := dict "index" 0 "name" "" -}}
{{- range $index, $word := .spec.command -}}
{{- $option := splitList "=" $word | first -}}
{{- if and (has $option $options) (contains "=" $word) -}}
{{- $named = dict "index" $index "name" (trimPrefix (printf "%s=" $option) $word) -}}
{{- else if has $before $options -}}
{{- $named = dict "index" $index "name" $word -}}
{{- end -}}
{{- $before = $word -}}
{{- end -}}
{{- toJson $named -}}
{{- end -}}

{{/* Sets the backend that the command names, and oneCCL's defaults. Takes the plan. */}}
{{- define "k8sel.defaultedBackend" -}}
{{- $name := (include "k8sel.namedBackend" . | mustFromJson).name -}}
{{- if hasKey .backends $name }}{{ include "k8sel.default" (list .spec (dict "backend" $name)) }}{{ end -}}
{{- $_ := set . "oneccl" (dig (default "" .spec.backend) "oneccl" false .backends) -}}
{{- if .oneccl }}{{ include "k8sel.default" (list .spec.ccl (dict "workers" .facts.backends.workers)) }}{{ end -}}
{{- end -}}

{{/*
oneCCL's variables of every process, sorted, as a JSON list of {name, value}: how the processes are started and what it can
send by (the launcher's, or its MPI's), then the file's.
*/}}
{{- define "k8sel.ccl" -}}
{{- $entries := list -}}
{{- if .oneccl -}}
{{- $values := deepCopy (.mpi | default .launcher).ccl -}}
{{- range $field, $value := .spec.ccl -}}
{{- $_ := set $values (get $.facts.backends.variables $field) (include "k8sel.quantity" $value) -}}
{{- end -}}
{{- range $name, $value := $values }}{{ $entries = append $entries (dict "name" $name "value" $value) }}{{ end -}}
{{- end -}}
{{- toJson $entries -}}
{{- end -}}
