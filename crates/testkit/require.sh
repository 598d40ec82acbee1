# For scripts that test: the counterpart of the macro `require!`. Source this file.

# Ends the script unless ALLOW_MISSING, a comma-separated list, names the requirement: missing NAME REASON.
missing() {
  local list=${ALLOW_MISSING:-}
  case ",${list// /}," in
    *",$1,"*) echo "missing: $1 (allowed by ALLOW_MISSING)" >&2 ;;
    *)
      echo "missing: $1: $2 (ALLOW_MISSING=$1 allows it)" >&2
      exit 1
      ;;
  esac
}
