#!/usr/bin/env bash
# Checks the Compose file and the Kubernetes manifests, each by its own validator, and their flags by the program:
# deploy/check.sh [PROGRAM] (else target/release/netalytics, else target/debug/netalytics).
set -euo pipefail
cd "$(dirname "$0")/.."
. crates/testkit/require.sh
work=$PWD/target/deploy-check
mkdir -p "$work"
fail() { echo "deploy: $*" >&2; exit 1; }

# Each word of a command that a container is started with: service, tab, word.
words=$work/words
: >"$words"

compose() {
  command -v go >/dev/null || { missing go "it builds the validator of compose.yaml"; return 0; }
  (cd deploy/check && go build -o "$work/compose" .) || { missing compose-go "the validator of compose.yaml cannot be built"; return 0; }
  "$work/compose" deploy/compose.yaml >>"$words"
  # It refuses what it does not know.
  sed 's/cap_drop:/cap_drops:/' deploy/compose.yaml >"$work/wrong.yaml"
  if "$work/compose" "$work/wrong.yaml" >/dev/null 2>&1; then fail "an unknown key of Compose went unnoticed"; fi
}

kubernetes() {
  local version=1.37.0 python=$work/venv/bin/python
  if ! "$python" -c "import importlib.metadata as m; assert m.version('kubernetes-validate') == '$version'" 2>/dev/null; then
    python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet --disable-pip-version-check "kubernetes-validate==$version" || {
      missing pip "kubernetes-validate cannot be installed"
      return 0
    }
  fi
  "$work/venv/bin/kubernetes-validate" --strict -k "${version%.*}" deploy/kubernetes/*.yaml >"$work/said" 2>&1 || fail "$(cat "$work/said")"
  sed 's/readOnlyRootFilesystem/readOnlyRoot/' deploy/kubernetes/agent.yaml >"$work/wrong.yaml"
  if "$work/venv/bin/kubernetes-validate" --strict -k "${version%.*}" "$work/wrong.yaml" >/dev/null 2>&1; then fail "an unknown key of Kubernetes went unnoticed"; fi
  "$python" - deploy/kubernetes/*.yaml >>"$words" <<'PY'
import re, sys, yaml
documents = [d for f in sys.argv[1:] for d in yaml.safe_load_all(open(f))]
values = {k: v for d in documents if d["kind"] == "ConfigMap" for k, v in d["data"].items()} | {"NODE": "node"}
for d in documents:
    pod = d.get("spec", {}).get("template", {}).get("spec", {})
    for c in pod.get("containers", []):
        for word in c["args"]:
            # Kubernetes leaves what it does not know as it is; here that is an error.
            print(c["name"], re.sub(r"\$\((\w+)\)", lambda m: values[m[1]], word), sep="\t")
        # Mounted volumes exist, and existing volumes are mounted.
        mounts, volumes = {m["name"] for m in c.get("volumeMounts", [])}, {v["name"] for v in pod.get("volumes", [])}
        volumes |= {v["metadata"]["name"] for v in d["spec"].get("volumeClaimTemplates", [])}
        assert mounts == volumes, (c["name"], mounts ^ volumes)
PY
}

# With --help appended, all arguments are parsed and nothing is executed.
flags() {
  local program=${1:-}
  [ -n "$program" ] || program=$(find target/release/netalytics target/debug/netalytics -maxdepth 0 2>/dev/null | head -n 1 || true)
  [ -n "$program" ] || fail "no program: cargo build, or deploy/check.sh PROGRAM"
  local name word said=() of=""
  try() {
    [ "${#said[@]}" = 0 ] || "$program" "${said[@]}" --help >/dev/null 2>"$work/said" || fail "$of: ${said[*]}: $(cat "$work/said")"
    said=()
  }
  while IFS=$'\t' read -r name word; do
    # The first argument of a container is a command.
    case $word in serve | agent | publish | query) try ;; esac
    of=$name
    said+=("$word")
  done <"$words"
  try
}

compose
kubernetes
flags "$@"
