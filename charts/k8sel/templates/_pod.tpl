{{/* The parts that all targets share (k8sel/planning/pod.py, k8sel/emit/podspec.py). */}}

{{/* Like toYaml, which gives "" for a text with a character that YAML must escape: such a text becomes JSON on one line. */}}
{{- define "k8sel.yaml" -}}
{{- $json := toJson . -}}
{{- $raw := regexFindAll `[\x{7f}-\x{9f}\x{feff}\x{fffe}\x{ffff}]` $json -1 -}}
{{- range uniq $raw }}{{ $json = replace . (printf "%+q" . | trimAll `"`) $json }}{{ end -}}
{{- ternary $json (toYaml .) (gt (len $raw) 0) -}}
{{- end -}}

{{/* The metadata of the job's own object. */}}
{{- define "k8sel.metadata" -}}
name: {{ .name | quote }}
{{- with .namespace }}
namespace: {{ . | quote }}
{{- end }}
labels:
{{- toYaml .labels | nindent 2 }}
{{- with .spec.scheduling.queue }}
  {{ $.facts.labels.queue }}: {{ . | quote }}
{{- end }}
annotations:
{{- include "k8sel.yaml" .annotations | nindent 2 }}
{{- end -}}

{{/* The runPolicy: how the job ends, waits and is scheduled. */}}
{{- define "k8sel.runPolicy" -}}
{{- $policy := .spec.policy -}}
cleanPodPolicy: {{ $policy.cleanPodPolicy | quote }}
{{- range tuple "ttlSecondsAfterFinished" "activeDeadlineSeconds" "backoffLimit" }}
{{- if hasKey $policy . }}
{{ . }}: {{ get $policy . | int64 }}
{{- end }}
{{- end }}
{{- if .spec.scheduling.queue }}
suspend: true # until the queue admits it
{{- end }}
{{- if .spec.scheduling.gang }}
schedulingPolicy:
  minAvailable: {{ int .spec.nodes }}
  {{- with .spec.scheduling.priorityClassName }}
  priorityClass: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/*
A replica. Takes plan, number, restartPolicy, and of its one container: name, command, env, and
  launcher   it runs mpirun: anywhere, and with no device
  port       it is ready once something listens there
*/}}
{{- define "k8sel.replica" -}}
replicas: {{ .number }}
restartPolicy: {{ .restartPolicy }}
template:
  metadata:
    labels:
      {{- toYaml .plan.labels | nindent 6 }}
  spec:
    {{- include "k8sel.podSpec" . | nindent 4 }}
{{- end -}}

{{/* The pod's spec. Takes the same as k8sel.replica. */}}
{{- define "k8sel.podSpec" -}}
{{- $facts := .plan.facts.pod -}}
{{- $pod := dict "enableServiceLinks" false "terminationGracePeriodSeconds" $facts.graceSeconds -}}
{{- include "k8sel.default" (list $pod .pod) -}}
{{- if not .plan.spec.serviceAccountName }}{{ $_ := set $pod "automountServiceAccountToken" false }}{{ end -}}
{{- if .plan.spec.hostNetwork }}{{ include "k8sel.default" (list $pod $facts.hostNetwork) }}{{ end -}}
{{- include "k8sel.fields" (list $pod . "pod" (list "affinity" "securityContext" "tolerations" "volumes")) -}}
{{- $_ := set $pod "containers" (list (include "k8sel.container" . | mustFromJson)) -}}
{{- include "k8sel.yaml" $pod -}}
{{- end -}}

{{/* One container as JSON. Takes the same as k8sel.replica. */}}
{{- define "k8sel.container" -}}
{{- $container := dict "name" .name "image" .plan.spec.image "command" .command -}}
{{- $_ := set $container "terminationMessagePolicy" "FallbackToLogsOnError" -}}
{{- with .env }}{{ $_ := set $container "env" . }}{{ end -}}
{{- include "k8sel.fields" (list $container . "container" (list "resources" "securityContext" "volumeMounts")) -}}
{{- with .port -}}
{{- $_ := set $container "startupProbe" (dict "tcpSocket" (dict "port" .) "periodSeconds" 2 "failureThreshold" 60) -}}
{{- end -}}
{{- toJson $container -}}
{{- end -}}

{{/*
Sets fields of a map, in place: those that k8sel writes as the job file has them (k8sel/facts/fields.json), and those with
a template of their own, k8sel.PLACE.FIELD. An empty list or map says nothing. Takes the map, what k8sel.replica takes, the
map's place in the table, and the names of the latter fields.
*/}}
{{- define "k8sel.fields" -}}
{{- $map := index . 0 -}}
{{- $about := index . 1 -}}
{{- $place := index . 2 -}}
{{- range $name, $path := get $about.plan.facts.copied $place -}}
{{- $value := include "k8sel.look" (list $about.plan $path) | mustFromJson -}}
{{- if or $value (kindIs "bool" $value) (kindIs "float64" $value) }}{{ $_ := set $map $name $value }}{{ end -}}
{{- end -}}
{{- range $name := index . 3 -}}
{{- with include (printf "k8sel.%s.%s" $place $name) $about | mustFromJson }}{{ $_ := set $map $name . }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* Requests and limits both, with the devices among them; mpirun has none. */}}
{{- define "k8sel.container.resources" -}}
{{- $amounts := dict -}}
{{- range $name, $amount := .plan.spec.resources }}{{ $_ := set $amounts $name (include "k8sel.quantity" $amount) }}{{ end -}}
{{- with .plan.devices.resource }}{{ $_ := set $amounts . (int64 $.plan.devices.count | toString) }}{{ end -}}
{{- $resources := ternary dict (dict "limits" $amounts "requests" $amounts) (empty $amounts) -}}
{{- empty .launcher | ternary $resources .plan.facts.pod.launcherResources | toJson -}}
{{- end -}}

{{/* A quantity as a string: the API refuses a fraction as a number. */}}
{{- define "k8sel.quantity" -}}
{{- kindIs "string" . | ternary . (toJson .) -}}
{{- end -}}

{{/* A quantity's amount, with its fraction: exact below 2^53. Takes plan and quantity. */}}
{{- define "k8sel.amount" -}}
{{- $text := include "k8sel.quantity" .quantity -}}
{{- $unit := regexFind `([KMGTPE]i|[numkMGTPE])$` $text -}}
{{- mulf (trimSuffix $unit $text | float64) (get .plan.facts.units $unit) -}}
{{- end -}}

{{/* The same in whole units, rounded up, and at most what Kubernetes counts. No quantity is 0. */}}
{{- define "k8sel.whole" -}}
{{- $amount := 0.0 -}}
{{- if not (kindIs "invalid" .quantity) }}{{ $amount = include "k8sel.amount" . | float64 | ceil }}{{ end -}}
{{- if ge $amount 9223372036854775807.0 }}9223372036854775807{{ else }}{{ int64 $amount }}{{ end -}}
{{- end -}}

{{/* The defaults pass Pod Security's level "restricted" as soon as the job file names a user that is not root. */}}
{{- define "k8sel.pod.securityContext" -}}
{{- $security := deepCopy .plan.spec.podSecurityContext -}}
{{- include "k8sel.default" (list $security (dict "seccompProfile" (dict "type" "RuntimeDefault"))) -}}
{{- if not .plan.root }}{{ include "k8sel.default" (list $security (dict "runAsNonRoot" true)) }}{{ end -}}
{{- toJson $security -}}
{{- end -}}

{{/* A privileged container has every right; the API refuses some of the rest beside it. A node's sshd needs capabilities. */}}
{{- define "k8sel.container.securityContext" -}}
{{- $security := deepCopy .plan.spec.securityContext -}}
{{- if not $security.privileged -}}
{{- $capabilities := default dict $security.capabilities -}}
{{- $needed := empty .launcher | ternary (get .plan.launcher.capabilities (toString .plan.root)) list -}}
{{- $added := $needed -}}
{{- range default list $capabilities.add }}{{ if not (has . $needed) }}{{ $added = append $added . }}{{ end }}{{ end -}}
{{- if $added }}{{ $_ := set $capabilities "add" $added }}{{ end -}}
{{- include "k8sel.default" (list $capabilities (dict "drop" (list "ALL"))) -}}
{{- $_ := set $security "capabilities" $capabilities -}}
{{- include "k8sel.default" (list $security (dict "allowPrivilegeEscalation" false)) -}}
{{- end -}}
{{- toJson $security -}}
{{- end -}}

{{- define "k8sel.pod.tolerations" -}}
{{- $tolerations := .plan.spec.tolerations -}}
{{- range .plan.devices.tolerations -}}
{{- if not (has . $tolerations) }}{{ $tolerations = append $tolerations . }}{{ end -}}
{{- end -}}
{{- toJson $tolerations -}}
{{- end -}}

{{/* The job file's affinity, with the devices' labels in every term: terms are alternatives. mpirun's pod has no device. */}}
{{- define "k8sel.pod.affinity" -}}
{{- $wanted := empty .launcher | ternary (include "k8sel.labels" .plan | mustFromJson) list -}}
{{- $affinity := deepCopy .plan.spec.affinity -}}
{{- if $wanted -}}
{{- $node := default dict $affinity.nodeAffinity -}}
{{- $required := default dict $node.requiredDuringSchedulingIgnoredDuringExecution -}}
{{- $terms := list -}}
{{- range default (list dict) $required.nodeSelectorTerms -}}
{{- $expressions := concat (default list .matchExpressions) $wanted -}}
{{- $terms = append $terms (set . "matchExpressions" $expressions) -}}
{{- end -}}
{{- $required = set $required "nodeSelectorTerms" $terms -}}
{{- $_ := set $affinity "nodeAffinity" (set $node "requiredDuringSchedulingIgnoredDuringExecution" $required) -}}
{{- end -}}
{{- toJson $affinity -}}
{{- end -}}

{{- define "k8sel.pod.volumes" -}}
{{- $volumes := .plan.spec.volumes -}}
{{- if hasKey .plan.spec "sharedMemory" -}}
{{- $memory := dict "medium" "Memory" "sizeLimit" (include "k8sel.quantity" .plan.spec.sharedMemory) -}}
{{- $volumes = append $volumes (dict "name" .plan.facts.pod.sharedMemory.name "emptyDir" $memory) -}}
{{- end -}}
{{- with .plan.configMap -}}
{{- $volumes = append $volumes (dict "name" $.plan.facts.pod.entrypoint.name "configMap" (dict "name" .)) -}}
{{- end -}}
{{- toJson $volumes -}}
{{- end -}}

{{- define "k8sel.container.volumeMounts" -}}
{{- $mounts := .plan.spec.volumeMounts -}}
{{- if hasKey .plan.spec "sharedMemory" }}{{ $mounts = append $mounts .plan.facts.pod.sharedMemory }}{{ end -}}
{{- if .plan.configMap }}{{ $mounts = append $mounts .plan.facts.pod.entrypoint }}{{ end -}}
{{- toJson $mounts -}}
{{- end -}}
