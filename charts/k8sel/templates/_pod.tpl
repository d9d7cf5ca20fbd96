{{/* The parts that all targets share (k8sel/planning/pod.py, k8sel/emit/podspec.py). */}}

{{/*
As toYaml, which gives "" for a text with a character that YAML does not take raw; then on one line, with escapes.
*/}}
{{- define "k8sel.yaml" -}}
{{- $json := toJson . -}}
{{- $raw := regexFindAll `[\x{7f}-\x{9f}\x{feff}\x{fffe}\x{ffff}]` $json -1 -}}
{{- range uniq $raw }}{{ $json = replace . (printf "%+q" . | trimAll `"`) $json }}{{ end -}}
{{- ternary $json (toYaml .) (gt (len $raw) 0) -}}
{{- end -}}

{{/* Of the job's own object. */}}
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

{{/* How the job ends, waits and is scheduled. */}}
{{- define "k8sel.runPolicy" -}}
{{- $policy := .spec.policy -}}
cleanPodPolicy: {{ $policy.cleanPodPolicy | quote }}
{{- if hasKey $policy "ttlSecondsAfterFinished" }}
ttlSecondsAfterFinished: {{ int64 $policy.ttlSecondsAfterFinished }}
{{- end }}
{{- with $policy.activeDeadlineSeconds }}
activeDeadlineSeconds: {{ int64 . }}
{{- end }}
backoffLimit: {{ int64 $policy.backoffLimit }}
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

{{/* Takes what k8sel.replica takes. */}}
{{- define "k8sel.podSpec" -}}
{{- $plan := .plan -}}
{{- $spec := $plan.spec -}}
{{- $pod := dict "enableServiceLinks" false "terminationGracePeriodSeconds" $plan.facts.pod.graceSeconds -}}
{{- include "k8sel.lay" (list $pod (default dict .pod)) -}}
{{- if not $spec.serviceAccountName }}{{ $_ := set $pod "automountServiceAccountToken" false }}{{ end -}}
{{- if $spec.hostNetwork -}}
{{- include "k8sel.lay" (list $pod (dict "hostNetwork" true "dnsPolicy" "ClusterFirstWithHostNet")) -}}
{{- end -}}
{{- $affinity := $spec.affinity -}}
{{- if not .launcher }}{{ $affinity = include "k8sel.affinity" $plan | mustFromJson }}{{ end -}}
{{- $security := include "k8sel.podSecurity" $plan | mustFromJson -}}
{{- $tolerations := include "k8sel.tolerations" $plan | mustFromJson -}}
{{- $volumes := include "k8sel.volumes" $plan | mustFromJson -}}
{{- include "k8sel.given" (list $pod (dict "affinity" $affinity "securityContext" $security "tolerations" $tolerations "volumes" $volumes)) -}}
{{- include "k8sel.copied" (list $pod $plan "pod") -}}
{{- $_ := set $pod "containers" (list (include "k8sel.container" . | mustFromJson)) -}}
{{- include "k8sel.yaml" $pod -}}
{{- end -}}

{{/* One container as JSON. Takes what k8sel.replica takes. */}}
{{- define "k8sel.container" -}}
{{- $spec := .plan.spec -}}
{{- $container := dict "name" .name "image" $spec.image "command" .command "terminationMessagePolicy" "FallbackToLogsOnError" -}}
{{- $resources := .plan.facts.pod.launcherResources -}}
{{- if not .launcher }}{{ $resources = include "k8sel.resources" .plan | mustFromJson }}{{ end -}}
{{- $mounts := include "k8sel.mounts" .plan | mustFromJson -}}
{{- $security := include "k8sel.security" . | mustFromJson -}}
{{- include "k8sel.given" (list $container (dict "env" .env "resources" $resources "volumeMounts" $mounts "securityContext" $security)) -}}
{{- include "k8sel.copied" (list $container .plan "container") -}}
{{- with .port -}}
{{- $_ := set $container "startupProbe" (dict "tcpSocket" (dict "port" .) "periodSeconds" 2 "failureThreshold" 60) -}}
{{- end -}}
{{- toJson $container -}}
{{- end -}}

{{/* Lays those fields that say something over a map, in place. Takes both. */}}
{{- define "k8sel.given" -}}
{{- $map := index . 0 -}}
{{- range $key, $value := index . 1 }}{{ if $value }}{{ $_ := set $map $key $value }}{{ end }}{{ end -}}
{{- end -}}

{{/*
Lays those fields over a map, in place, that k8sel writes as the job file has them (k8sel/facts/fields.json). An empty list
or map says nothing, and a number is a whole one. Takes the map, the plan and the map's place in the table.
*/}}
{{- define "k8sel.copied" -}}
{{- $map := index . 0 -}}
{{- $plan := index . 1 -}}
{{- range $name, $path := get $plan.facts.copied (index . 2) -}}
{{- $value := $plan -}}
{{- range splitList "." $path }}{{ $value = get $value . }}{{ end -}}
{{- if kindIs "float64" $value }}{{ $value = int64 $value }}{{ end -}}
{{- if or $value (kindIs "bool" $value) (kindIs "int64" $value) }}{{ $_ := set $map $name $value }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* Requests and limits both, with the devices among them. */}}
{{- define "k8sel.resources" -}}
{{- $amounts := dict -}}
{{- range $name, $amount := .spec.resources }}{{ $_ := set $amounts $name (include "k8sel.quantity" $amount) }}{{ end -}}
{{- with .devices.resource }}{{ $_ := set $amounts . (int64 $.devices.count | toString) }}{{ end -}}
{{- ternary dict (dict "limits" $amounts "requests" $amounts) (empty $amounts) | toJson -}}
{{- end -}}

{{/* As a string, since a resource's schema takes no fraction as a number. */}}
{{- define "k8sel.quantity" -}}
{{- kindIs "string" . | ternary . (toJson .) -}}
{{- end -}}

{{/*
A quantity in whole units, rounded up: exact below 2^53, and at most what Kubernetes counts. Takes plan and quantity;
none is 0.
*/}}
{{- define "k8sel.whole" -}}
{{- if kindIs "invalid" .quantity }}0{{ else -}}
{{- $text := include "k8sel.quantity" .quantity -}}
{{- $unit := regexFind `([KMGTPE]i|[numkMGTPE])$` $text -}}
{{- $amount := mulf (trimSuffix $unit $text | float64) (get .plan.facts.units $unit) | ceil -}}
{{- if ge $amount 9223372036854775807.0 }}9223372036854775807{{ else }}{{ int64 $amount }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* The defaults pass Pod Security's level "restricted" as soon as the job file names a user that is not root. */}}
{{- define "k8sel.podSecurity" -}}
{{- $security := dict "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- if not .root }}{{ $_ := set $security "runAsNonRoot" true }}{{ end -}}
{{- include "k8sel.lay" (list $security .spec.podSecurityContext) -}}
{{- toJson $security -}}
{{- end -}}

{{/* Takes what k8sel.replica takes. A privileged container has every right; the API refuses some of the rest beside it. */}}
{{- define "k8sel.security" -}}
{{- $given := .plan.spec.securityContext -}}
{{- if $given.privileged -}}
{{- toJson $given -}}
{{- else -}}
{{- $capabilities := dict "drop" (list "ALL") -}}
{{- include "k8sel.lay" (list $capabilities (default dict $given.capabilities)) -}}
{{- $needed := include "k8sel.capabilities" . | mustFromJson -}}
{{- $added := $needed -}}
{{- range default list $capabilities.add }}{{ if not (has . $needed) }}{{ $added = append $added . }}{{ end }}{{ end -}}
{{- if $added }}{{ $_ := set $capabilities "add" $added }}{{ end -}}
{{- $security := dict "allowPrivilegeEscalation" false -}}
{{- include "k8sel.lay" (list $security $given) -}}
{{- $_ := set $security "capabilities" $capabilities -}}
{{- toJson $security -}}
{{- end -}}
{{- end -}}

{{/* That a node's sshd needs; none for anything else. */}}
{{- define "k8sel.capabilities" -}}
{{- $mpi := .plan.facts.mpi -}}
{{- $needed := list -}}
{{- if and .plan.launcher.usesMpi (not .launcher) -}}
{{- $needed = concat $mpi.capabilities (ternary $mpi.rootCapabilities list .plan.root) -}}
{{- end -}}
{{- toJson $needed -}}
{{- end -}}

{{- define "k8sel.tolerations" -}}
{{- $tolerations := .spec.tolerations -}}
{{- range .devices.tolerations }}{{ if not (has . $tolerations) }}{{ $tolerations = append $tolerations . }}{{ end }}{{ end -}}
{{- toJson $tolerations -}}
{{- end -}}

{{/* The job file's affinity and what the labels have to say: in every term, since terms are alternatives. */}}
{{- define "k8sel.affinity" -}}
{{- $wanted := .devices.labels -}}
{{- $affinity := deepCopy .spec.affinity -}}
{{- if $wanted -}}
{{- $node := default dict $affinity.nodeAffinity -}}
{{- $required := default dict $node.requiredDuringSchedulingIgnoredDuringExecution -}}
{{- $terms := list -}}
{{- range default (list dict) $required.nodeSelectorTerms -}}
{{- $term := deepCopy . -}}
{{- $terms = append $terms (set $term "matchExpressions" (concat (default list $term.matchExpressions) $wanted)) -}}
{{- end -}}
{{- $_ := set $required "nodeSelectorTerms" $terms -}}
{{- $_ := set $node "requiredDuringSchedulingIgnoredDuringExecution" $required -}}
{{- $_ := set $affinity "nodeAffinity" $node -}}
{{- end -}}
{{- toJson $affinity -}}
{{- end -}}

{{- define "k8sel.volumes" -}}
{{- $volumes := .spec.volumes -}}
{{- if hasKey .spec "sharedMemory" -}}
{{- $memory := dict "medium" "Memory" "sizeLimit" (include "k8sel.quantity" .spec.sharedMemory) -}}
{{- $volumes = append $volumes (dict "name" .facts.pod.sharedMemory "emptyDir" $memory) -}}
{{- end -}}
{{- if .configMap -}}
{{- $volumes = append $volumes (dict "name" .facts.pod.entrypoint "configMap" (dict "name" .configMap)) -}}
{{- end -}}
{{- toJson $volumes -}}
{{- end -}}

{{- define "k8sel.mounts" -}}
{{- $mounts := .spec.volumeMounts -}}
{{- if hasKey .spec "sharedMemory" -}}
{{- $mounts = append $mounts (dict "name" .facts.pod.sharedMemory "mountPath" "/dev/shm") -}}
{{- end -}}
{{- if .configMap -}}
{{- $mounts = append $mounts (dict "name" .facts.pod.entrypoint "mountPath" .facts.entrypoint.folder "readOnly" true) -}}
{{- end -}}
{{- toJson $mounts -}}
{{- end -}}
