{{/* A job for the mpi-operator: the launcher runs mpirun and may see no device, the workers run sshd. */}}
{{- define "k8sel.mpijob" -}}
{{- $command := include "k8sel.command" . | mustFromJson -}}
{{- $containerEnv := include "k8sel.containerEnv" (list . .facts.hidden) | mustFromJson -}}
{{- $launcher := dict "plan" . "name" "launcher" "number" 1 "command" $command "env" $containerEnv "launcher" true -}}
{{- $sshd := list .facts.mpi.sshd .ssh | include "k8sel.replaced" | mustFromJson | include "k8sel.literal" | mustFromJson -}}
{{- $env := include "k8sel.env" . | mustFromJson -}}
{{- $port := int .spec.mpi.sshPort -}}
{{- $worker := dict "plan" . "name" "worker" "number" (int .spec.nodes) "command" $sshd "env" $env "port" $port -}}
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  {{- include "k8sel.metadata" . | nindent 2 }}
spec:
  slotsPerWorker: {{ int .spec.processesPerNode }}
  runPolicy:
    {{- include "k8sel.runPolicy" . | nindent 4 }}
  sshAuthMountPath: {{ .spec.mpi.sshAuthMountPath | quote }}
  launcherCreationPolicy: WaitForWorkersReady
  mpiImplementation: {{ .spec.mpi.implementation }}
  mpiReplicaSpecs:
    Launcher:
      {{- include "k8sel.replica" (set $launcher "restartPolicy" "Never") | nindent 6 }}
    Worker:
      {{- include "k8sel.replica" (set $worker "restartPolicy" "Never") | nindent 6 }}
{{- end -}}
