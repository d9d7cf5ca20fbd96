{{/*
The problems of a job of correct form: Helm checks the form first, by values.schema.json. All problems at
once, as path: kind: message. Hint: hint, in the words of `k8sel validate`. Fields that contradict each other are rows
(_conflicts.tpl); here is what has to be counted or compared (k8sel/jobfile/rules/). The nearest right word, a command line as a
list and the warnings are left to Python.

Each takes plan, spec, asked (the accelerator), row (its own in the table), words (facts.refusals) and found, the list
that grows.
*/}}
{{- define "k8sel.checks" -}}
{{- $found := dict "lines" list -}}
{{- $about := dict "plan" . "spec" .spec "accelerator" .spec.accelerator "row" .row "words" .facts.refusals "found" $found -}}
{{- include "k8sel.conflicts" (dict "plan" . "view" (include "k8sel.view" . | mustFromJson) "found" $found) -}}
{{- range tuple "devices" "masks" "command" "names" "env" "mounts" "amounts" "workers" -}}
{{- include (printf "k8sel.checks.%s" .) $about -}}
{{- end -}}
{{- with $found.lines }}{{ uniq . | join "\n" | printf "\n%s" | fail }}{{ end -}}
{{- end -}}

{{/* Adds a problem. Takes found, then path, kind, message and hint. */}}
{{- define "k8sel.refuse" -}}
{{- $line := printf "%s: %s: %s." (index . 1) (index . 2) (index . 3) -}}
{{- with index . 4 }}{{ $line = printf "%s Hint: %s" $line . }}{{ end -}}
{{- $found := index . 0 -}}
{{- $_ := set $found "lines" (append $found.lines $line) -}}
{{- end -}}

{{/* A problem for each name that is not the first of its kind. Takes found, a path with %d for the place, names and hint. */}}
{{- define "k8sel.eachOnce" -}}
{{- $found := index . 0 -}}
{{- $path := index . 1 -}}
{{- $of := regexFind `[a-zA-Z]+\[` $path -}}
{{- $hint := index . 3 -}}
{{- $first := dict -}}
{{- range $index, $name := index . 2 -}}
{{- if hasKey $first $name -}}
{{- $message := printf "%s is already in %s%d]" $name $of (get $first $name) -}}
{{- include "k8sel.refuse" (list $found (printf $path $index) "duplicate" $message $hint) -}}
{{- else -}}
{{- $_ := set $first $name $index -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A text in quotes, short enough for one line. */}}
{{- define "k8sel.quoted" -}}
{{- gt (len .) 60 | ternary (regexFind `(?s)^.{0,57}` . | printf "%s...") . | toRawJson -}}
{{- end -}}

{{/* The same text without quotes if it is a short plain word. */}}
{{- define "k8sel.bare" -}}
{{- if regexMatch `^[ -~]{1,60}$` . }}{{ . }}{{ else }}{{ include "k8sel.quoted" . }}{{ end -}}
{{- end -}}

{{/* Refuses devices beyond the count, and unequal shares of the processes. */}}
{{- define "k8sel.checks.devices" -}}
{{- $devices := .accelerator.devices -}}
{{- $count := int .accelerator.count -}}
{{- $number := len $devices -}}
{{- $processes := int .spec.processesPerNode -}}
{{- $top := -1 -}}
{{- range $devices }}{{ $top = max $top (int .) }}{{ end -}}
{{- range $index, $device := $devices -}}
{{- if and (eq (int $device) (int $top)) (le $count $top) -}}
{{- $hint := printf "count: %d" (add1 $top) -}}
{{- if le $number $count -}}
{{- $exposed := include "k8sel.ascending" $devices | mustFromJson -}}
{{- $positions := include "k8sel.positions" (list $exposed $devices) | replace "," ", " -}}
{{- $hint = printf "%s, or devices: %s" $hint $positions -}}
{{- end -}}
{{- $message := printf "count is %d, but device %d needs a count above %d" $count $top $top -}}
{{- include "k8sel.refuse" (list $.found (printf "spec.accelerator.devices[%d]" $index) "invalid" $message $hint) -}}
{{- end -}}
{{- end -}}
{{- if and (eq .accelerator.isolation "process") (gt $number $processes) (mod $number $processes) -}}
{{- $possible := list -}}
{{- range untilStep 1 (int (add1 $number)) 1 -}}
{{- if not (mod $number .) }}{{ $possible = append $possible (toString .) }}{{ end -}}
{{- end -}}
{{- $message := printf "%d devices cannot be divided equally among %d processes" $number $processes -}}
{{- $hint := printf "use one of %s" (join ", " $possible) -}}
{{- include "k8sel.refuse" (list .found "spec.processesPerNode" "invalid" $message $hint) -}}
{{- end -}}
{{- end -}}

{{/* Refuses devices that the mask cannot express: some masks are a set, or one range. */}}
{{- define "k8sel.checks.masks" -}}
{{- $process := eq .accelerator.isolation "process" -}}
{{- $byUnit := and .row.unit .plan.launcher.restarts (gt (int .spec.processesPerNode) 1) -}}
{{- $number := len .accelerator.devices -}}
{{- $size := $process | ternary (div $number (int .spec.processesPerNode)) $number | max 1 | int -}}
{{- $sorted := include "k8sel.ascending" .accelerator.devices | replace "," ", " -}}
{{- $other := (or $process (not (empty $byUnit))) | ternary "" ", or isolation: process, which gives each process a mask of its own" -}}
{{- $ordered := true -}}
{{- $whole := true -}}
{{- range $share := chunk $size .accelerator.devices -}}
{{- $ascending := include "k8sel.ascending" $share | mustFromJson -}}
{{- if ne (toJson $ascending) (toJson $share) }}{{ $ordered = false }}{{ end -}}
{{- if ge (sub (last $ascending | int) (first $ascending | int)) (len $share | int64) }}{{ $whole = false }}{{ end -}}
{{- end -}}
{{- if and .row.maskEnv (not (or .row.maskOrdered $ordered)) -}}
{{- $message := printf "%s cannot order devices: the processes would see %s" .row.maskEnv $sorted -}}
{{- include "k8sel.refuse" (list .found "spec.accelerator.devices" "invalid" $message (printf "devices: %s%s" $sorted $other)) -}}
{{- end -}}
{{- if and (eq (default "" .row.maskValue) "range") (not $whole) (not $byUnit) (ne .accelerator.allocation "host") -}}
{{- $message := printf "%s holds one range, but devices %s have a gap" .row.maskEnv $sorted -}}
{{- $hint := printf "choose devices without a gap%s" $other -}}
{{- include "k8sel.refuse" (list .found "spec.accelerator.devices" "invalid" $message $hint) -}}
{{- end -}}
{{- end -}}

{{/* Refuses a launcher inside the launcher. */}}
{{- define "k8sel.checks.command" -}}
{{- $command := .spec.command -}}
{{- $program := first $command | base -}}
{{- $starters := list -}}
{{- if has $program $.words.starters }}{{ $starters = list 0 $program }}{{ end -}}
{{- range $index, $word := rest $command -}}
{{- $before := index $command $index -}}
{{- if $starters -}}
{{- else if and (eq $before "-m") (has $word $.words.modules) (hasPrefix "python" $program) -}}
{{- $starters = list (add1 $index) $word -}}
{{- else if and (has $before (list "-c" "-lc" "-ec")) (has $program (list "sh" "bash")) (regexMatch $.words.inShell $word) -}}
{{- $starters = list (add1 $index) (regexReplaceAll (printf "(?s)^.*?%s.*$" $.words.inShell) $word "${1}") -}}
{{- end -}}
{{- end -}}
{{- if $starters -}}
{{- $message := printf "the command already has the launcher %s, and k8sel adds the launcher itself" (last $starters) -}}
{{- $hint := "write the command of one process, for example [python, train.py], and set spec.launcher" -}}
{{- include "k8sel.refuse" (list .found (printf "spec.command[%d]" (first $starters)) "forbidden" $message $hint) -}}
{{- end -}}
{{- end -}}

{{/* Refuses a name of the job (by default the release's) that makes a pod's name too long. */}}
{{- define "k8sel.checks.names" -}}
{{- $name := .plan.name -}}
{{- if not (and (le (len $name) 63) (regexMatch .words.name $name)) -}}
{{- $form := "use lower-case letters, digits and '-'; a letter first, a letter or digit last" -}}
{{- $message := printf "%s is not allowed: %s" (include "k8sel.quoted" $name) $form -}}
{{- include "k8sel.refuse" (list .found "metadata.name" "invalid" $message "set metadata.name: it replaces the release's name") -}}
{{- end -}}
{{- $kind := get .plan.facts.jobs .spec.target -}}
{{- $longest := printf "%s-%s" $name $kind.first -}}
{{- $workers := sub (int .spec.nodes) ($kind.firstComputes | ternary 1 0) -}}
{{- $worker := printf "%s-worker-%d" $name (sub $workers 1) -}}
{{- if and $workers (gt (len $worker) (len $longest)) }}{{ $longest = $worker }}{{ end -}}
{{- if gt (len $longest) 63 -}}
{{- $message := printf "the pod name %s has %d characters, but at most 63 are allowed" $longest (len $longest) -}}
{{- $hint := printf "use at most %d characters" (sub (add 63 (len $name)) (len $longest)) -}}
{{- include "k8sel.refuse" (list .found "metadata.name" "invalid" $message $hint) -}}
{{- end -}}
{{- end -}}

{{/* Refuses variables that stand twice, or that fields of ccl or mpi.binding set. */}}
{{- define "k8sel.checks.env" -}}
{{- $spec := .spec -}}
{{- $written := dict -}}
{{- range dig "bound" (default "" $spec.mpi.binding) list .plan.mpi -}}
{{- $_ := set $written . (list (printf "mpi.binding %s" $spec.mpi.binding) "mpi.binding") -}}
{{- end -}}
{{- range $field, $_ := .plan.oneccl | ternary $spec.ccl dict -}}
{{- $own := printf "ccl.%s" $field -}}
{{- $_ := set $written (get $.plan.facts.backends.variables $field) (list $own $own) -}}
{{- end -}}
{{- $names := list -}}
{{- range $index, $entry := $spec.env -}}
{{- $names = append $names (include "k8sel.bare" $entry.name) -}}
{{- with get $written $entry.name -}}
{{- $message := printf "%s already sets %s" (first .) $entry.name -}}
{{- $path := printf "spec.env[%d].name" $index -}}
{{- include "k8sel.refuse" (list $.found $path "forbidden" $message (printf "leave it out, and use %s" (last .))) -}}
{{- end -}}
{{- end -}}
{{- include "k8sel.eachOnce" (list .found "spec.env[%d].name" $names "keep one of the two") -}}
{{- end -}}

{{/* Refuses volumes that stand twice, mounts of no volume, and mounts at a path in use. */}}
{{- define "k8sel.checks.mounts" -}}
{{- $names := list -}}
{{- range .spec.volumes }}{{ $names = append $names .name }}{{ end -}}
{{- include "k8sel.eachOnce" (list .found "spec.volumes[%d].name" $names "choose another name") -}}
{{- $taken := dict -}}
{{- if hasKey .spec "sharedMemory" }}{{ $_ := set $taken "/dev/shm" "sharedMemory is mounted there" }}{{ end -}}
{{- if .plan.launcher.usesMpi -}}
{{- $_ := set $taken "/etc/mpi" "the operator mounts the list of hosts there" -}}
{{- $_ := set $taken (regexReplaceAll `/+$` .spec.mpi.sshAuthMountPath "") "the operator mounts the ssh keys there" -}}
{{- end -}}
{{- $places := list -}}
{{- range $index, $mount := .spec.volumeMounts -}}
{{- $path := printf "spec.volumeMounts[%d]" $index -}}
{{- if not (has $mount.name $names) -}}
{{- $only := empty $names | ternary "" (printf ", only %s" (join ", " $names)) -}}
{{- $message := printf "there is no volume %s%s" (include "k8sel.quoted" $mount.name) $only -}}
{{- include "k8sel.refuse" (list $.found (printf "%s.name" $path) "invalid" $message "add it to volumes") -}}
{{- end -}}
{{- $path = printf "%s.mountPath" $path -}}
{{- $place := regexReplaceAll `/+$` $mount.mountPath "" -}}
{{- $places = append $places (include "k8sel.quoted" $place) -}}
{{- range $other, $reason := $taken -}}
{{- if hasPrefix (printf "%s/" $other) (printf "%s/" $place) -}}
{{- include "k8sel.refuse" (list $.found $path "forbidden" $reason "choose another mountPath") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "k8sel.eachOnce" (list .found "spec.volumeMounts[%d].mountPath" $places "choose another mountPath") -}}
{{- end -}}

{{/* Refuses parts of a device: a device plugin allocates whole devices. */}}
{{- define "k8sel.checks.amounts" -}}
{{- range $name, $amount := .spec.resources -}}
{{- $exact := include "k8sel.amount" (dict "plan" $.plan "quantity" $amount) | float64 -}}
{{- if and (contains "/" $name) (ne $exact (ceil $exact)) -}}
{{- $message := printf "%s is not a whole number, and a device plugin gives only whole ones" (include "k8sel.quantity" $amount) -}}
{{- include "k8sel.refuse" (list $.found (printf "spec.resources.%s" $name) "invalid" $message "write a whole number") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses more oneCCL workers than cores: each worker of the node takes one. */}}
{{- define "k8sel.checks.workers" -}}
{{- $affinity := default "auto" .spec.ccl.workerAffinity -}}
{{- if and (ne $affinity "auto") .plan.oneccl -}}
{{- $path := "spec.ccl.workerAffinity" -}}
{{- $cores := 0 -}}
{{- $backwards := list -}}
{{- range splitList "," $affinity -}}
{{- $first := splitList "-" . | first | atoi -}}
{{- $last := splitList "-" . | last | atoi -}}
{{- $cores = add $cores (sub $last $first) 1 -}}
{{- if and (gt $first $last) (not $backwards) }}{{ $backwards = list $first $last }}{{ end -}}
{{- end -}}
{{- $processes := int .spec.processesPerNode -}}
{{- $workers := int .spec.ccl.workers -}}
{{- $needed := mul $processes $workers -}}
{{- if $backwards -}}
{{- $message := printf "%d-%d begins with the higher core" (first $backwards) (last $backwards) -}}
{{- include "k8sel.refuse" (list .found $path "invalid" $message (printf "write %d-%d" (last $backwards) (first $backwards))) -}}
{{- else if ne $cores $needed -}}
{{- $message := printf "%d cores expected for %d x %d workers of a node, %d found" $needed $processes $workers $cores -}}
{{- include "k8sel.refuse" (list .found $path "invalid" $message "write auto, or one core for each worker of the node") -}}
{{- end -}}
{{- end -}}
{{- end -}}
