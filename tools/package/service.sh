# For tools/package_check.sh: the unit's command without systemd, nginx before it, and what a client does.

# As the service: its user, its environment, the system calls it may make.
as_service() { PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels /usr/bin/python3 tools/as_unit.py "$ROOT" "$UNIT_FILE" "$@"; }

# The unit's command, and nginx, in a network of their own, where nobody else has the ports.
start() {
    local command
    read -ra command < <(sed -n 's/^ExecStart=//p' "$UNIT_FILE")
    coproc SERVICE { export -f as_service; export ROOT UNIT_FILE
        exec unshare --net bash -c 'ip link set lo up; as_service "$@"' start "${command[@]}" 2>&1; }
    DAEMON=$SERVICE_PID
    NETWORK=/proc/$DAEMON/ns/net
    local line
    read -r -t 60 line <&"${SERVICE[0]}" || fail "the daemon says nothing"
    [[ $line == "blazar: listening on http://127.0.0.1:11435" ]] || fail "the daemon says: $line"
    nsenter --net="$NETWORK" chroot "$ROOT" nginx
}

stop() {
    within nginx -s quit 2>/dev/null
    kill -TERM "$(pgrep -P "$DAEMON")"  # the shell before it goes with it
    wait "$DAEMON" || fail "the daemon ended with $?"
    DAEMON=
}

# An nginx before it by the example that the package brings, as its first lines say, with a certificate of our own.
install_nginx() {
    get nginx-light openssl
    within openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$SITE" \
        -addext "subjectAltName=DNS:$SITE" -keyout /etc/ssl/private/front.key -out /etc/ssl/certs/front.crt 2>/dev/null
    API_KEY=$(within blazar keys add client 2>"$WORK/keys.log")
    within blazar config set trusted_proxies 127.0.0.1
    sed -e "s|/etc/letsencrypt/live/$SITE/fullchain.pem|/etc/ssl/certs/front.crt|" \
        -e "s|/etc/letsencrypt/live/$SITE/privkey.pem|/etc/ssl/private/front.key|" \
        "$ROOT/usr/share/doc/blazar/examples/blazar.conf" >"$ROOT/etc/nginx/sites-available/front"
    grep -q "server_name $SITE;" "$ROOT/etc/nginx/sites-available/front" || fail "the example has another server_name"
    ln -s ../sites-available/front "$ROOT/etc/nginx/sites-enabled/front"
    within nginx -t -q
}

# A question to the model in the network that is up; $1 is the address, $2 whether its answer shall be a stream.
ask() {
    nsenter --net="$NETWORK" curl -fsS --no-buffer --max-time 120 --resolve "$SITE:443:127.0.0.1" \
        --cacert "$ROOT/etc/ssl/certs/front.crt" --header "Authorization: Bearer $API_KEY" \
        --write-out '\nHTTP/%{http_version}\n' "$1/v1/chat/completions" \
        -d "{\"model\": \"$MODEL\", \"stream\": $2, \"max_tokens\": 24, \"seed\": 1, \"temperature\": 0,
            \"messages\": [{\"role\": \"user\", \"content\": \"Count from one to ten.\"}]}"
}

# The answer straight, through nginx with TLS, and through it piece by piece: one text each time.
chat() {
    local straight behind stream
    straight=$(ask http://127.0.0.1:11435 false | text_of)
    behind=$(ask "https://$SITE" false)
    stream=$(ask "https://$SITE" true)
    echo "through nginx, HTTP/$(sed -n 's|^HTTP/||p' <<<"$stream"), in $(grep -c '^data: {' <<<"$stream") events: $straight"
    [ -n "$straight" ] || fail "the model says nothing"
    [ "$(text_of <<<"$behind")" = "$straight" ] || fail "through nginx: $behind"
    [ "$(sed -n 's/^data: {/{/p' <<<"$stream" | text_of)" = "$straight" ] || fail "as a stream: $stream"
    [ "$(grep -c '^data: {' <<<"$stream")" -ge 5 ] && grep -qx 'data: \[DONE\]' <<<"$stream" || fail "no stream: $stream"
    local code
    code=$(nsenter --net="$NETWORK" curl -s -o /dev/null --write-out '%{http_code}' --resolve "$SITE:443:127.0.0.1" \
        --cacert "$ROOT/etc/ssl/certs/front.crt" "https://$SITE/v1/models")
    [ "$code" = 401 ] || fail "who has no API key gets a $code"
    grep -qx HTTP/2 <<<"$behind" && grep -qx HTTP/2 <<<"$stream" || fail "HTTP/2 was not spoken"
}

# The text in one answer, or in the events of one, each on a line.
text_of() {
    python3 -c '
import json, sys
answers = [json.loads(line) for line in sys.stdin if line.startswith("{")]
parts = [choice.get("message") or choice["delta"] for answer in answers for choice in answer["choices"]]
print(repr("".join(part.get("content") or "" for part in parts)))'
}
