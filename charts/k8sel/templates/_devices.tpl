{{/*
What one node asks for, and what its processes see of it, as JSON (k8sel/planning/devices.py).

  resource    the extended resource to ask for; "" for none
  count       how many of it, or how many enter the container
  positions   container-local, in local-rank order
  exposure    variables that say which of the host's devices enter, or that hide every vendor's: [{name, value}]
  mask        the mask by position; none where it holds what only a look at the devices can say
  product     that each may be
  memory      that each must have, in bytes; 0 for any
  tolerations
*/}}
{{- define "k8sel.devices" -}}
{{- $asked := .spec.accelerator -}}
{{- if not (and .row.maskEnv $asked.devices) -}}
{{- toJson .facts.noDevices -}}
{{- else -}}
{{- $resource := default .row.resourceName $asked.resource -}}
{{- $held := dict "positions" $asked.devices "count" $asked.count "resource" $resource "exposure" list "mask" list -}}
{{- if eq $asked.allocation "host" -}}
{{- $exposed := include "k8sel.ascending" $asked.devices | mustFromJson -}}
{{- $_ := set $held "exposure" (list (dict "name" (default "" .row.exposureEnv) "value" (toJson $exposed | trimAll "[]"))) -}}
{{- $_ := set $held "positions" (include "k8sel.positions" (list $exposed $asked.devices) | mustFromJson) -}}
{{- $_ := set $held "count" (len $asked.devices) -}}
{{- $_ := set $held "resource" "" -}}
{{- end -}}
{{- if .row.maskedByPosition -}}{{/* where the mask cannot order, it is a set */}}
{{- $listed := .row.maskOrdered | ternary $held.positions (include "k8sel.ascending" $held.positions | mustFromJson) -}}
{{- $mask := dict "name" .row.maskEnv "value" (toJson $listed | trimAll "[]") -}}
{{- $_ := set $held "mask" (append (dig $asked.order list .row.orderEnv) $mask) -}}
{{- end -}}
{{- $_ := set $held "product" (default list $asked.product) -}}
{{- $_ := set $held "memory" (include "k8sel.whole" (dict "plan" . "quantity" $asked.memory) | int64) -}}
{{- $_ := set $held "tolerations" (list (dict "key" $resource "operator" "Exists" "effect" "NoSchedule")) -}}
{{- toJson $held -}}
{{- end -}}
{{- end -}}

{{/*
What a node's labels have to say of its devices, as expressions of node affinity. The memory's label is rounded down to MiB,
and Gt is "more than"; it is a card's, of which a slice has a part. Takes the plan.
*/}}
{{- define "k8sel.labels" -}}
{{- $wanted := list -}}
{{- if and .devices.product .row.productLabel -}}
{{- $wanted = append $wanted (dict "key" .row.productLabel "operator" "In" "values" .devices.product) -}}
{{- end -}}
{{- if and .devices.memory .row.memoryLabel -}}
{{- $below := sub (div .devices.memory 1048576) 1 | max 0 | toString -}}
{{- $wanted = append $wanted (dict "key" .row.memoryLabel "operator" "Gt" "values" (list $below)) -}}
{{- end -}}
{{- toJson $wanted -}}
{{- end -}}

{{/* Numbers in ascending order, each once: sprig sorts texts only. */}}
{{- define "k8sel.ascending" -}}
{{- $numbers := list -}}
{{- $top := 0 -}}
{{- range . }}{{ $numbers = append $numbers (int .) }}{{ $top = max $top (int .) }}{{ end -}}
{{- $sorted := list -}}
{{- range until (int (add1 $top)) }}{{ if has . $numbers }}{{ $sorted = append $sorted . }}{{ end }}{{ end -}}
{{- toJson $sorted -}}
{{- end -}}

{{/* The place of each of the second list's numbers in the first list. */}}
{{- define "k8sel.positions" -}}
{{- $places := dict -}}
{{- range $place, $number := index . 0 }}{{ $_ := set $places (toString $number) $place }}{{ end -}}
{{- $positions := list -}}
{{- range index . 1 }}{{ $positions = append $positions (get $places (toString .)) }}{{ end -}}
{{- toJson $positions -}}
{{- end -}}
