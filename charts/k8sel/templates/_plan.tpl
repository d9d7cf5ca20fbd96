{{/*
A job, decided, as JSON: everything the other templates need, so that they decide nothing (k8sel/jobfile/defaults.py, planner.py).

  name, namespace, labels, annotations, sha256   of the job
  spec       the job file's, with every default filled in, and without what is null
  facts      the tables
  row, launcher, mpi   their rows; mpi is that of a launcher that uses one
  backends, conflicts  all rows
  root       whether the containers run as root, as far as the file says
  devices    what a node asks for and what its processes see (_devices.tpl)
  configMap  the name of the one with the entrypoint, where the job brings it along
*/}}
{{- define "k8sel.plan" -}}
{{- $tables := dict -}}
{{- range tuple "facts" "accelerators" "launchers" "mpi" "backends" "conflicts" -}}
{{- $_ := set $tables . (include "k8sel.table" (list $ .) | mustFromJson) -}}
{{- end -}}
{{- $facts := $tables.facts -}}
{{- $metadata := deepCopy (default dict .Values.metadata) -}}
{{- if not $metadata.name }}{{ $_ := set $metadata "name" .Release.Name }}{{ end -}}
{{- $document := dict "apiVersion" $facts.apiVersion "kind" $facts.kind "metadata" $metadata "spec" .Values.spec -}}
{{- $sha256 := toRawJson $document | sha256sum -}}
{{- $spec := deepCopy .Values.spec -}}
{{- $plan := dict "name" $metadata.name "sha256" $sha256 "facts" $facts "backends" $tables.backends "conflicts" $tables.conflicts "spec" $spec -}}
{{- $_ := set $plan "row" (get $tables.accelerators $spec.accelerator.type) -}}
{{- $_ := set $plan "launcher" (get $tables.launchers $spec.launcher) -}}
{{- include "k8sel.defaulted" $plan -}}
{{- $_ := set $plan "namespace" (default "" $metadata.namespace) -}}
{{- $_ := set $plan "given" (dict "labels" (default dict $metadata.labels) "annotations" (default dict $metadata.annotations)) -}}
{{- $_ := set $plan "labels" (deepCopy $plan.given.labels) -}}
{{- include "k8sel.lay" (list $plan.labels (dict $facts.labels.managedBy $facts.labels.manager $facts.labels.job $plan.name)) -}}
{{- $_ := set $plan "annotations" (deepCopy $plan.given.annotations) -}}
{{- $_ := set $plan.annotations $facts.labels.jobFile $sha256 -}}
{{- $_ := set $plan "mpi" ($plan.launcher.usesMpi | ternary (get $tables.mpi (default "" $spec.mpi.implementation)) dict) -}}
{{- $_ := set $plan "devices" (include "k8sel.devices" $plan | mustFromJson) -}}
{{- if eq $spec.entrypoint.mode "configMap" -}}
{{- $_ := set $plan "configMap" (include "k8sel.configMapName" (list $ $plan.name)) -}}
{{- end -}}
{{- include "k8sel.checks" $plan -}}
{{- toJson $plan -}}
{{- end -}}

{{/* Fills what is not given into the plan's spec, in place, and says who root is. Null is "not given". */}}
{{- define "k8sel.defaulted" -}}
{{- $plan := . -}}
{{- $spec := .spec -}}
{{- $facts := .facts -}}
{{- include "k8sel.dropNulls" $spec -}}
{{- range $facts.parts.models }}{{ include "k8sel.default" (list $spec . dict) }}{{ include "k8sel.dropNulls" (get $spec .) }}{{ end -}}
{{- range $facts.parts.maps }}{{ include "k8sel.default" (list $spec . dict) }}{{ end -}}
{{- range $facts.parts.lists }}{{ include "k8sel.default" (list $spec . list) }}{{ end -}}
{{- $user := dict "runAsNonRoot" false "runAsUser" 0 -}}
{{- include "k8sel.lay" (list $user $spec.podSecurityContext) -}}
{{- include "k8sel.lay" (list $user $spec.securityContext) -}}
{{- $root := and (not $user.runAsNonRoot) (eq (toJson $user.runAsUser) "0") -}}
{{- $_ := set $plan "root" $root -}}
{{- include "k8sel.defaultedAccelerator" $plan -}}
{{- include "k8sel.defaultedBackend" $plan -}}
{{- $devices := len $spec.accelerator.devices -}}
{{- include "k8sel.default" (list $spec "target" (first .launcher.targets)) -}}
{{- include "k8sel.default" (list $spec "processesPerNode" (ternary (max 1 $devices) 1 .launcher.perDevice)) -}}
{{- range $part, $values := $facts.defaults -}}
{{- $place := eq $part "spec" | ternary $spec (get $spec $part) -}}
{{- if or (ne $part "mpi") $plan.launcher.usesMpi -}}
{{- range $key, $value := $values }}{{ include "k8sel.default" (list $place $key $value) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if .launcher.usesMpi -}}
{{- include "k8sel.default" (list $spec.mpi "sshAuthMountPath" (ternary $facts.mpi.rootSsh $facts.mpi.userSsh $root)) -}}
{{- else if get $facts.gangSchedulers (default "" $spec.scheduling.gang) -}}
{{- include "k8sel.default" (list $spec.scheduling "schedulerName" (get $facts.gangSchedulers $spec.scheduling.gang)) -}}
{{- end -}}
{{- include "k8sel.default" (list $spec.entrypoint "check" (ternary "off" "enforce" (eq $spec.entrypoint.mode "none"))) -}}
{{- end -}}

{{/* `count` and `devices`, each from the other; one device where neither is given. */}}
{{- define "k8sel.defaultedAccelerator" -}}
{{- $asked := .spec.accelerator -}}
{{- if hasKey $asked "devices" -}}
{{- $top := -1 -}}
{{- range $asked.devices }}{{ $top = max $top (int .) }}{{ end -}}
{{- include "k8sel.default" (list $asked "count" (add1 $top)) -}}
{{- else -}}
{{- include "k8sel.default" (list $asked "count" (empty .row.maskEnv | ternary 0 1)) -}}
{{- $_ := set $asked "devices" (until (int $asked.count)) -}}
{{- end -}}
{{- end -}}

{{/* Sets a key of a map, in place, unless it is there. Takes the map, the key and the value. */}}
{{- define "k8sel.default" -}}
{{- if not (hasKey (index . 0) (index . 1)) -}}
{{- $_ := set (index . 0) (index . 1) (index . 2) -}}
{{- end -}}
{{- end -}}

{{/* Lays a map over another one, in place: sprig's merge takes false and 0 for "not given". Takes both. */}}
{{- define "k8sel.lay" -}}
{{- $under := index . 0 -}}
{{- range $key, $value := index . 1 }}{{ $_ := set $under $key $value }}{{ end -}}
{{- end -}}

{{/* Takes the keys without a value out of a map, in place. */}}
{{- define "k8sel.dropNulls" -}}
{{- $map := . -}}
{{- range $key, $value := $map }}{{ if kindIs "invalid" $value }}{{ $_ := unset $map $key }}{{ end }}{{ end -}}
{{- end -}}
