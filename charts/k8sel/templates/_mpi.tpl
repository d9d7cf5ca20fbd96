{{/* MPI: mpirun's command line, and how it reaches the nodes over ssh, as JSON lists (k8sel/planning/mpi.py). */}}

{{/* Takes plan, perNode (processes to start on each node), binding and settled (variables to set in them). */}}
{{- define "k8sel.mpirun" -}}
{{- $plan := .plan -}}
{{- $mpi := $plan.mpi -}}
{{- $options := include "k8sel.sshOptions" $plan -}}
{{- $words := list -}}
{{- if $mpi.sshEnv -}}
{{- $words = append $words "env" -}}
{{- range $mpi.sshEnv }}{{ $words = append $words (printf "%s=%s" . $options) }}{{ end -}}
{{- end -}}
{{- $words = concat (append $words $mpi.program) $mpi.rootFlags $mpi.hostfile -}}
{{- $words = concat $words (list $mpi.count (mul $plan.spec.nodes .perNode | toString)) -}}
{{- $words = concat $words (include "k8sel.bound" . | mustFromJson) -}}
{{- if $mpi.sshFlag }}{{ $words = append (concat $words $mpi.sshFlag) $options }}{{ end -}}
{{- $words = concat $words (include "k8sel.exports" $plan | mustFromJson) -}}
{{- range $entry := .settled -}}
{{- range $mpi.set }}{{ $words = append $words (replace "{name}" $entry.name . | replace "{value}" $entry.value) }}{{ end -}}
{{- end -}}
{{- toJson $words -}}
{{- end -}}

{{/* How many on each node, and bound to what. Takes what k8sel.mpirun takes. */}}
{{- define "k8sel.bound" -}}
{{- $perNode := int64 .perNode | toString -}}
{{- $cores := include "k8sel.cores" .plan.spec -}}
{{- $words := list -}}
{{- range get .plan.mpi.binding .binding }}{{ $words = append $words (replace "{per_node}" $perNode . | replace "{cores}" $cores) }}{{ end -}}
{{- toJson $words -}}
{{- end -}}

{{/* The cores of one process: its threads compute, and oneCCL's workers have their own. Takes the spec. */}}
{{- define "k8sel.cores" -}}
{{- add (default 1 .cpu.threadsPerProcess) (default 0 .ccl.workers) -}}
{{- end -}}

{{/* The variables that mpirun sends from its own environment: a node's own do not reach the ranks. */}}
{{- define "k8sel.exports" -}}
{{- $names := list -}}
{{- if ne .spec.entrypoint.mode "none" }}{{ $names = append $names .facts.entrypoint.variable }}{{ end -}}
{{- $names = append $names "MASTER_ADDR" -}}
{{- range .facts.mpi.constants }}{{ $names = append $names .name }}{{ end -}}
{{- range include "k8sel.ccl" . | mustFromJson }}{{ $names = append $names .name }}{{ end -}}
{{- $left := ne .spec.entrypoint.mode "none" -}}
{{- range .spec.env -}}
{{- if not (and $left (include "k8sel.ofItsPod" .)) }}{{ $names = append $names .name }}{{ end -}}
{{- end -}}
{{- $mpi := .mpi -}}
{{- if $mpi.exportList -}}
{{- list $mpi.export (uniq $names | join ",") | toJson -}}
{{- else -}}
{{- $words := list -}}
{{- range uniq $names }}{{ $words = concat $words (list $mpi.export .) }}{{ end -}}
{{- toJson $words -}}
{{- end -}}
{{- end -}}

{{/* Of the client, as one word. */}}
{{- define "k8sel.sshOptions" -}}
{{- $mpi := .spec.mpi -}}
{{- $words := list "-p" (int64 $mpi.sshPort | toString) "-i" (printf "%s/id_rsa" $mpi.sshAuthMountPath) -}}
{{- range .facts.mpi.sshOptions }}{{ $words = concat $words (list "-o" .) }}{{ end -}}
{{- join " " $words -}}
{{- end -}}

{{/* The nodes' command. */}}
{{- define "k8sel.sshd" -}}
{{- $mpi := .spec.mpi -}}
{{- $words := .facts.mpi.sshdStart -}}
{{- range .facts.mpi.sshdOptions -}}
{{- $words = concat $words (list "-o" (replace "{port}" (int64 $mpi.sshPort | toString) . | replace "{path}" $mpi.sshAuthMountPath)) -}}
{{- end -}}
{{- include "k8sel.literal" $words -}}
{{- end -}}
