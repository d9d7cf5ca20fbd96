{{/*
What one node asks for, and what its processes see of it, as JSON (k8sel/planning/devices.py).

  resource    the extended resource to ask for; "" for none
  count       how many of it, or how many enter the container
  positions   container-local, in local-rank order
  exposure    variables that say which of the host's devices enter, or that hide every vendor's: [{name, value}]
  mask        the mask by position, where no entrypoint writes it
  labels      what a node's labels have to say of its devices
  product     that each may be, and
  memory      that each must have, in bytes; 0 for any
  tolerations
*/}}
{{- define "k8sel.devices" -}}
{{- $asked := .spec.accelerator -}}
{{- if not (and .row.maskEnv $asked.devices) -}}
{{- toJson .facts.noDevices -}}
{{- else -}}
{{- $resource := default .row.resourceName $asked.resource -}}
{{- $held := dict "positions" $asked.devices "count" $asked.count "resource" $resource "exposure" list -}}
{{- if eq $asked.allocation "host" -}}
{{- $exposed := include "k8sel.ascending" $asked.devices | mustFromJson -}}
{{- $exposure := dict "name" (default "" .row.exposureEnv) "value" (include "k8sel.commas" $exposed) -}}
{{- $positions := include "k8sel.positions" (list $exposed $asked.devices) | mustFromJson -}}
{{- $held = dict "positions" $positions "count" (len $asked.devices) "resource" "" "exposure" (list $exposure) -}}
{{- end -}}
{{- $_ := set $held "mask" (include "k8sel.mask" (dict "plan" . "positions" $held.positions) | mustFromJson) -}}
{{- $_ := set $held "product" (default list $asked.product) -}}
{{- $_ := set $held "memory" (include "k8sel.whole" (dict "plan" . "quantity" $asked.memory) | int64) -}}
{{- $_ := set $held "labels" (include "k8sel.labels" (dict "row" .row "held" $held) | mustFromJson) -}}
{{- $_ := set $held "tolerations" (list (dict "key" $resource "operator" "Exists" "effect" "NoSchedule")) -}}
{{- toJson $held -}}
{{- end -}}
{{- end -}}

{{/*
The variables that mask by position; none where a mask holds what only a look at the devices can say. Where the mask
cannot order, it is a set. Takes plan and positions.
*/}}
{{- define "k8sel.mask" -}}
{{- $row := .plan.row -}}
{{- $entries := list -}}
{{- if $row.maskedByPosition -}}
{{- $listed := $row.maskOrdered | ternary .positions (include "k8sel.ascending" .positions | mustFromJson) -}}
{{- $mask := dict "name" $row.maskEnv "value" (include "k8sel.commas" $listed) -}}
{{- $entries = append (dig .plan.spec.accelerator.order list $row.orderEnv) $mask -}}
{{- end -}}
{{- toJson $entries -}}
{{- end -}}

{{/*
Expressions of node affinity. The memory's label is rounded down to MiB, and Gt is "more than"; it is a card's, of which
a slice has a part. Takes row and held.
*/}}
{{- define "k8sel.labels" -}}
{{- $wanted := list -}}
{{- if and .held.product .row.productLabel -}}
{{- $wanted = append $wanted (dict "key" .row.productLabel "operator" "In" "values" .held.product) -}}
{{- end -}}
{{- if and .held.memory .row.memoryLabel -}}
{{- $below := sub (div .held.memory 1048576) 1 | max 0 | toString -}}
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

{{/* Numbers as in a mask: 2,0. */}}
{{- define "k8sel.commas" -}}
{{- toJson . | trimAll "[]" -}}
{{- end -}}
