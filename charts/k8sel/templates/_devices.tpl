{{/*
The devices that one node requests, and those that its processes see, as JSON (k8sel/planning/devices.py).

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
{{- $accelerator := .spec.accelerator -}}
{{- if not (and .row.maskEnv $accelerator.devices) -}}
{{- toJson .facts.noDevices -}}
{{- else -}}
{{- $resource := default .row.resourceName $accelerator.resource -}}
{{- $devices := dict "positions" $accelerator.devices "count" $accelerator.count "resource" $resource "exposure" list "mask" list -}}
{{- if eq $accelerator.allocation "host" -}}
{{- $exposed := include "k8sel.ascending" $accelerator.devices | mustFromJson -}}
{{- $_ := set $devices "exposure" (list (dict "name" (default (default "" .row.exposureEnv) .row.hostEnv) "value" (toJson $exposed | trimAll "[]"))) -}}
{{- $_ := set $devices "positions" (include "k8sel.positions" (list $exposed $accelerator.devices) | mustFromJson) -}}
{{- $_ := set $devices "count" (len $accelerator.devices) -}}
{{- $_ := set $devices "resource" "" -}}
{{- end -}}
{{- if .row.maskedByPosition -}}{{/* a mask that cannot order is a set */}}
{{- $listed := .row.maskOrdered | ternary $devices.positions (include "k8sel.ascending" $devices.positions | mustFromJson) -}}
{{- $mask := dict "name" .row.maskEnv "value" (toJson $listed | trimAll "[]") -}}
{{- $_ := set $devices "mask" (append (dig $accelerator.order list .row.orderEnv) $mask) -}}
{{- end -}}
{{- $_ := set $devices "product" (default list $accelerator.product) -}}
{{- $_ := set $devices "memory" (include "k8sel.whole" (dict "plan" . "quantity" $accelerator.memory) | int64) -}}
{{- $_ := set $devices "tolerations" (list (dict "key" $resource "operator" "Exists" "effect" "NoSchedule")) -}}
{{- toJson $devices -}}
{{- end -}}
{{- end -}}

{{/*
The required labels of a node about its devices, as expressions of node affinity. The memory's label is rounded down to MiB,
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

{{/* The index in the first list of each number of the second list. */}}
{{- define "k8sel.positions" -}}
{{- $places := dict -}}
{{- range $place, $number := index . 0 }}{{ $_ := set $places (toString $number) $place }}{{ end -}}
{{- $positions := list -}}
{{- range index . 1 }}{{ $positions = append $positions (get $places (toString .)) }}{{ end -}}
{{- toJson $positions -}}
{{- end -}}
