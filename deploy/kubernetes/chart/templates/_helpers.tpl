{{- define "handrail.name" -}}
{{- if contains "handrail" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-handrail" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "handrail.labels" -}}
app.kubernetes.io/name: handrail
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "handrail.selector" -}}
app.kubernetes.io/name: handrail
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{/* What each pod of Handrail may, as Pod Security `restricted` wants it. */}}
{{- define "handrail.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "handrail.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The variables that all parts have. */}}
{{- define "handrail.env" -}}
envFrom:
  - configMapRef:
      name: {{ include "handrail.name" . }}
  - secretRef:
      name: {{ .Values.secret }}
{{- end }}

{{/*
The pod of one part. A pod of a StatefulSet keeps its name, so it stays the same host of Handrail; its HANDRAIL_HOME, where it
is not kept, gets the same id and the same keys again.
*/}}
{{- define "handrail.pod" -}}
{{- $name := include "handrail.name" .root -}}
metadata:
  labels:
    {{- include "handrail.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .part }}
  annotations:
    handrail.dev/config: {{ include (print .root.Template.BasePath "/config.yaml") .root | sha256sum }}
spec:
  serviceAccountName: {{ $name }}-{{ .part }}
  automountServiceAccountToken: {{ ne .part "queue" }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: 60
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  securityContext:
    {{- include "handrail.podSecurity" .root | nindent 4 }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "handrail.selector" . | nindent 10 }}
  initContainers:
    - name: keys
      image: {{ .root.Values.image }}
      command: [/bin/sh, -eu, /scripts/keys.sh]
      env:
        - name: HOST
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
      volumeMounts:
        - {name: home, mountPath: /data}
        - {name: keys, mountPath: /keys, readOnly: true}
        - {name: scripts, mountPath: /scripts, readOnly: true}
      resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 64Mi}}
      securityContext:
        {{- include "handrail.containerSecurity" .root | nindent 8 }}
  containers:
    - name: {{ .part }}
      image: {{ .root.Values.image }}
      {{- include "handrail.env" .root | nindent 6 }}
      env:
        - name: HANDRAIL_PARTS
          value: {{ .parts }}
        - name: HANDRAIL_HOST_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        {{- if ne .part "queue" }}
        - name: HANDRAIL_RUNNER_ADDRESS
          value: $(HANDRAIL_HOST_NAME).{{ $name }}-{{ .part }}:7443
      ports:
        - {name: runner, containerPort: 7443}
        {{- if eq .part "web" }}
        - {name: http, containerPort: 8000}
        {{- end }}
        {{- end }}
      {{- if eq .part "web" }}
      readinessProbe:
        httpGet: {path: /healthz, port: http, httpHeaders: [{name: Host, value: handrail.internal}]}
        periodSeconds: 5
        timeoutSeconds: 5
      startupProbe:
        httpGet: {path: /healthz, port: http, httpHeaders: [{name: Host, value: handrail.internal}]}
        periodSeconds: 5
        failureThreshold: 60
      {{- else if eq .part "runner" }}
      readinessProbe:
        tcpSocket: {port: runner}
        periodSeconds: 5
      {{- end }}
      resources:
        {{- toYaml (index .root.Values .part).resources | nindent 8 }}
      volumeMounts:
        - {name: home, mountPath: /data}
        - {name: tmp, mountPath: /tmp}
      securityContext:
        {{- include "handrail.containerSecurity" .root | nindent 8 }}
  volumes:
    {{- if not .claimed }}
    - name: home
      emptyDir: {}
    {{- end }}
    - name: tmp
      emptyDir: {}
    - name: keys
      secret: {secretName: {{ .root.Values.keysSecret }}, defaultMode: 0440}
    - name: scripts
      configMap: {name: {{ $name }}-scripts}
{{- end }}
