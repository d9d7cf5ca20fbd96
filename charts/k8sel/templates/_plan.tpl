{{/*
The plan of a job as JSON: everything the other templates need, so that they decide nothing (k8sel/jobfile/defaults.py, planner.py).
Nothing about a vendor, a launcher or an MPI is written in a template: charts/tables.py writes the tables from k8sel's own
code. Numbers in them arrive as floats, as all JSON's do here.

  name, namespace, labels, annotations, sha256   of the job
  spec       the job file's, with every default filled in, and without what is null
  facts      the constants
  row, launcher, mpi   their rows; mpi is that of a launcher that uses one
  ssh        what is filled into the command lines of ssh and sshd
  backends, conflicts  all rows
  user, root the container's user, and whether it is root, as far as the file says
  oneccl     whether the job's backend uses oneCCL
  devices    what a node asks for and what its processes see (_devices.tpl)
  configMap  the name of the one with the entrypoint, where the job brings it along
*/}}
{{- define "k8sel.plan" -}}
{{- $tables := dict -}}
{{- range tuple "facts" "accelerators" "launchers" "mpi" "backends" "conflicts" -}}
{{- $file := printf "files/%s.json" . -}}{{/* Helm gives "" for a file that is not there */}}
{{- $text := $.Files.Get $file | required (printf "the chart lacks %s: python charts/generate.py" $file) -}}
{{- $_ := set $tables . (mustFromJson $text) -}}
{{- end -}}
{{- $facts := $tables.facts -}}
{{- $metadata := deepCopy (default dict .Values.metadata) -}}
{{- if not $metadata.name }}{{ $_ := set $metadata "name" .Release.Name }}{{ end -}}
{{- $document := dict "apiVersion" $facts.apiVersion "kind" $facts.kind "metadata" $metadata "spec" .Values.spec -}}
{{- $labels := dict $facts.labels.managedBy $facts.labels.manager $facts.labels.job $metadata.name -}}
{{- include "k8sel.default" (list $labels $metadata.labels) -}}
{{- $spec := deepCopy .Values.spec -}}
{{- $plan := pick $tables "facts" "backends" "conflicts" -}}
{{- include "k8sel.default" (list $plan (dict "name" $metadata.name "namespace" (default "" $metadata.namespace))) -}}
{{- include "k8sel.default" (list $plan (dict "labels" $labels "spec" $spec)) -}}
{{- $_ := set $plan "row" (get $tables.accelerators $spec.accelerator.type) -}}
{{- $_ := set $plan "launcher" (get $tables.launchers $spec.launcher) -}}
{{- include "k8sel.defaulted" $plan -}}
{{- $sha256 := include "k8sel.sha256" (list (deepCopy $document) (get $facts.jobs $spec.target).ofObject) -}}
{{- $annotations := dict $facts.labels.jobFile $sha256 -}}
{{- include "k8sel.default" (list $annotations $metadata.annotations) -}}
{{- include "k8sel.default" (list $plan (dict "sha256" $sha256 "annotations" $annotations)) -}}
{{- $_ := set $plan "ssh" (list (list "{port}" (int64 $spec.mpi.sshPort)) (list "{path}" $spec.mpi.sshAuthMountPath)) -}}
{{- $_ := set $plan "mpi" ($plan.launcher.usesMpi | ternary (get $tables.mpi (default "" $spec.mpi.implementation)) dict) -}}
{{- $_ := set $plan "devices" (include "k8sel.devices" $plan | mustFromJson) -}}
{{- if eq $spec.entrypoint.mode "configMap" -}}{{/* immutable, so its name changes with its content */}}
{{- $content := printf "%s\x00%s" (.Files.Get "files/entrypoint.sh") (.Files.Get "files/entrypoint.pyz") -}}
{{- $_ := set $plan "configMap" (printf "%s-k8sel-%s" $plan.name (sha256sum $content | trunc 10)) -}}
{{- end -}}
{{- include "k8sel.checks" $plan -}}
{{- omit $plan "backends" "conflicts" | toJson -}}{{/* the checks alone read these */}}
{{- end -}}

{{/*
The sha256 of a job file without the fields that only the job's object has, and without parents that are empty then
(k8sel/jobfile/canonical.py). Takes the file and the paths of these fields.
*/}}
{{- define "k8sel.sha256" -}}
{{- $document := index . 0 -}}
{{- range $path := index . 1 -}}
{{- $around := $document -}}
{{- range initial (initial $path) }}{{ $around = get $around . }}{{ end -}}
{{- $name := last (initial $path) -}}
{{- $parent := default dict (get $around $name) -}}
{{- $_ := unset $parent (last $path) -}}
{{- if not $parent }}{{ $_ := unset $around $name }}{{ end -}}
{{- end -}}
{{- toRawJson $document | sha256sum -}}
{{- end -}}

{{/* Sets the defaults in the plan's spec, in place, and whether the user is root. Null counts as omitted. */}}
{{- define "k8sel.defaulted" -}}
{{- $spec := .spec -}}
{{- include "k8sel.dropNulls" $spec -}}
{{- include "k8sel.default" (list $spec .facts.parts) -}}
{{- range .facts.models }}{{ include "k8sel.dropNulls" (get $spec .) }}{{ end -}}
{{- $user := deepCopy $spec.securityContext -}}
{{- include "k8sel.default" (list $user $spec.podSecurityContext) -}}
{{- include "k8sel.default" (list $user (dict "runAsNonRoot" false "runAsUser" 0)) -}}
{{- $_ := set . "user" $user -}}
{{- $_ := set . "root" (and (not $user.runAsNonRoot) (eq (toJson $user.runAsUser) "0")) -}}
{{- include "k8sel.defaultedAccelerator" . -}}
{{- include "k8sel.defaultedBackend" . -}}
{{- range $part, $values := .launcher.defaults -}}
{{- include "k8sel.default" (list (eq $part "spec" | ternary $spec (get $spec $part)) $values) -}}
{{- end -}}
{{- $processes := .launcher.perDevice | ternary (len $spec.accelerator.devices | max 1) 1 -}}
{{- include "k8sel.default" (list $spec (dict "processesPerNode" $processes)) -}}
{{- include "k8sel.default" (list $spec.mpi (get .launcher.defaultsOfUser (toString .root))) -}}
{{- with get .launcher.gangSchedulers (default "" $spec.scheduling.gang) -}}
{{- include "k8sel.default" (list $spec.scheduling (dict "schedulerName" .)) -}}
{{- end -}}
{{- include "k8sel.default" (list $spec.entrypoint (dict "check" (ternary "off" "enforce" (eq $spec.entrypoint.mode "none")))) -}}
{{- end -}}

{{/* Sets `count` from `devices`, or `devices` from `count`; one device if the file has neither. */}}
{{- define "k8sel.defaultedAccelerator" -}}
{{- $accelerator := .spec.accelerator -}}
{{- if hasKey $accelerator "devices" -}}
{{- $top := -1 -}}
{{- range $accelerator.devices }}{{ $top = max $top (int .) }}{{ end -}}
{{- include "k8sel.default" (list $accelerator (dict "count" (add1 $top))) -}}
{{- else -}}
{{- include "k8sel.default" (list $accelerator (dict "count" (empty .row.maskEnv | ternary 0 1))) -}}
{{- $_ := set $accelerator "devices" (until (int $accelerator.count)) -}}
{{- end -}}
{{- end -}}

{{/* Sets keys that a map lacks, in place: sprig's merge replaces false and 0 too. Takes the map and the values. */}}
{{- define "k8sel.default" -}}
{{- $map := index . 0 -}}
{{- range $key, $value := index . 1 }}{{ if not (hasKey $map $key) }}{{ $_ := set $map $key $value }}{{ end }}{{ end -}}
{{- end -}}

{{/* Removes the keys without a value from a map, in place. */}}
{{- define "k8sel.dropNulls" -}}
{{- $map := . -}}
{{- range $key, $value := $map }}{{ if kindIs "invalid" $value }}{{ $_ := unset $map $key }}{{ end }}{{ end -}}
{{- end -}}
