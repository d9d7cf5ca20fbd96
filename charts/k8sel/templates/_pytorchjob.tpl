{{/* A job for the training-operator: exactly one Master; the other nodes are Workers. */}}
{{- define "k8sel.pytorchjob" -}}
{{- $command := include "k8sel.command" . | mustFromJson -}}
{{- $env := include "k8sel.containerEnv" (list . list) | mustFromJson -}}
{{- $restart := gt (int .spec.policy.backoffLimit) 0 | ternary "ExitCode" "Never" -}}{{/* ExitCode: only 128 and above */}}
{{- $node := dict "plan" . "name" "pytorch" "command" $command "env" $env "restartPolicy" $restart -}}
{{- $others := sub (int .spec.nodes) 1 -}}
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  {{- include "k8sel.metadata" . | nindent 2 }}
spec:
  nprocPerNode: {{ int64 .spec.processesPerNode | toString | quote }}
  runPolicy:
    {{- include "k8sel.runPolicy" . | nindent 4 }}
  pytorchReplicaSpecs:
    Master:
      {{- include "k8sel.replica" (set $node "number" 1) | nindent 6 }}
    {{- if $others }}
    Worker:
      {{- include "k8sel.replica" (set $node "number" $others) | nindent 6 }}
    {{- end }}
{{- end -}}
