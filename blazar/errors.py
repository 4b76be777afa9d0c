"""Every error a person can meet: wording, stable slug, HTTP status and exit code, in one tree.

The docstring of a class is its template; the facts given to the constructor fill it. A message says what was
asked, what the limit was, and what to do instead. Only `cli/main.py` and each dialect's `error()` turn an
error into text for a person; built-in exceptions serve for programming mistakes.
"""

from typing import Any


class BlazarError(Exception):
    """{message}"""

    slug = "error"
    status = 500
    exit_code = 1
    usual_pause: float | None = None
    """Seconds after which a client may try again, where the error does not know better."""

    def __init__(self, message: str | None = None, *, retry_after: float | None = None,
                 **facts: Any) -> None:
        template = " ".join((type(self).__doc__ or "{message}").split())
        self.message = message if message is not None else template.format(**facts)
        self.retry_after = retry_after if retry_after is not None else self.usual_pause
        """Seconds after which a client may try again, or None."""
        super().__init__(self.message)

    def to_dict(self) -> dict[str, Any]:
        """The error as plain values, for the control socket; `revive` is the way back."""
        return {"slug": self.slug, "message": self.message, "status": self.status,
                "retry_after": self.retry_after}


# -- configuration and command line ------------------------------------------------------------------


class ConfigRefused(BlazarError):
    """{where}: {problem}; {remedy}"""

    slug = "config-refused"
    status = 400
    exit_code = 2


class UsageRefused(BlazarError):
    """{message}"""

    slug = "usage-refused"
    status = 400
    exit_code = 2


class BindConflict(BlazarError):
    """cannot listen on {host}:{port}: {holder}; stop it, or choose another port with `--port` or `port = ...`"""

    slug = "bind-conflict"
    exit_code = 3


class BindRefused(BlazarError):
    """cannot listen on {host}:{port}: {reason}; {remedy}"""

    slug = "bind-refused"
    exit_code = 2


class CertificateRefused(BlazarError):
    """{setting} {file} cannot be used: {reason}; {remedy}"""

    slug = "certificate-refused"
    status = 400
    exit_code = 2


class CertificateUntrusted(BlazarError):
    """{url} answers with a certificate that is not trusted: {reason}; {remedy}"""

    slug = "certificate-untrusted"
    status = 502
    exit_code = 4


class AlreadyRunning(BlazarError):
    """already running, pid {pid}, with data dir {data_dir}; `blazar ps` talks to it, `kill {pid}` stops it"""

    slug = "already-running"
    exit_code = 3


class ApiKeyRefused(BlazarError):
    """the daemon at {url} {reason}; set BLAZAR_API_KEY to one of its API keys"""

    slug = "api-key-refused"
    status = 401


class DaemonUnreachable(BlazarError):
    """no daemon answers at {url}; start one with `blazar serve`, or set BLAZAR_HOST to where it runs"""

    slug = "daemon-unreachable"
    status = 503
    exit_code = 4


class NoTls(DaemonUnreachable):
    """{url} does not speak TLS; write http:// instead of https:// in BLAZAR_HOST"""

    slug = "no-tls"


class CensusRefused(BlazarError):
    """{path} is not a census of a machine: {reason}; `blazar doctor --census FILE` saves one"""

    slug = "census-refused"
    status = 400
    exit_code = 2


class StoreUnwritable(BlazarError):
    """cannot write {path}: {reason}; {remedy}"""

    slug = "store-unwritable"
    status = 507


class LogUnreadable(BlazarError):
    """{path} cannot be read: {reason}; {remedy}"""

    slug = "log-unreadable"


class SchemaNewer(BlazarError):
    """{path} has schema {found} and this Blazar knows up to {known}; install the newer Blazar, or restore the
    backup blazar.db.bak-{known} beside it"""

    slug = "schema-newer"


class DatabaseUnusable(BlazarError):
    """the database {path} cannot be used: {reason}; {remedy}"""

    slug = "database-unusable"


class DatabaseLocked(DatabaseUnusable):
    """the database {path} cannot be used: {reason}; {remedy}"""

    slug = "database-locked"
    status = 503
    usual_pause = 5.0


class DatabaseOutOfReach(DatabaseUnusable):
    """the database {path} cannot be opened: this process has no file descriptor left; try again, and raise its limit of
    open files if that goes on: LimitNOFILE= of the unit, `ulimit -n` of a shell"""

    slug = "database-out-of-reach"
    status = 503
    usual_pause = 5.0


class DatabaseFull(DatabaseUnusable):
    """the database {path} cannot be written: the disk is full; free some space, then try again"""

    slug = "database-full"
    status = 507


# -- models ------------------------------------------------------------------------------------------


class NameRefused(BlazarError):
    """{name!r} is not a model name: {reason}; a name looks like qwen3-8b:q4_k_m"""

    slug = "name-refused"
    status = 400


class ModelNotFound(BlazarError):
    """model {name!r} not found, try pulling it first: `blazar pull {name}`; `blazar list` shows what is
    installed{near}"""

    # Clients of Ollama know these words: up to "not found", or up to "first".

    slug = "model-not-found"
    status = 404


class AliasHollow(ModelNotFound):
    """{alias} is an [[alias]] of the model {model!r}, which is not installed; `blazar pull {model}` installs it, or
    correct `model` of the alias in the configuration"""

    slug = "alias-hollow"


class AliasFixed(BlazarError):
    """{name} is an [[alias]] of the configuration, so no request can {change}; {remedy}"""

    slug = "alias-fixed"
    status = 409


class NotPullable(ModelNotFound):
    """{name!r} is not a name that this Blazar knows{near}; `blazar pull` alone lists those, owner/repo pulls from the
    registry, https://... a GGUF file, and ./file.gguf one of this machine"""

    slug = "not-pullable"


class NameTaken(BlazarError):
    """{name} is already installed from another file; choose a name with `--name`, or `blazar rm {name}` first"""

    slug = "name-taken"
    status = 409


class ModelAmbiguous(BlazarError):
    """{name!r} could be any of {candidates}; ask for one of them by its full name"""

    slug = "model-ambiguous"
    status = 400


class ModelFileRefused(BlazarError):
    """{path} is not a usable GGUF file: {reason}"""

    slug = "model-file-refused"
    status = 400


class ModelfileRefused(BlazarError):
    """{message}"""

    slug = "modelfile-refused"
    status = 400
    exit_code = 2


class BlobMissing(BlazarError):
    """the file {name!r} with digest sha256:{digest} is not here; send it first, to /api/blobs/sha256:{digest}"""

    slug = "blob-missing"
    status = 400


class BlobMismatch(BlazarError):
    """what was sent has the digest sha256:{found}, not sha256:{expected}; it was thrown away, send it again"""

    slug = "blob-mismatch"
    status = 400


class DigestRefused(BlazarError):
    """{digest!r} is no digest; it looks like sha256: and 64 hex digits"""

    slug = "digest-refused"
    status = 400


class PushRefused(BlazarError):
    """Blazar sends no models anywhere: {name} stays on this machine; its file is {file}, for a registry's own tools to
    upload"""

    slug = "push-refused"
    status = 400


class PullFailed(BlazarError):
    """could not pull {name}: {reason}; {remedy}"""

    slug = "pull-failed"
    status = 502


class DigestMismatch(PullFailed):
    """{path} has sha256 {found}, expected {expected}; it was removed, pull again"""

    slug = "digest-mismatch"


class RepositoryMissing(PullFailed):
    """{base} shows no model {repo}; check how it is spelled, or, when it is private, set BLAZAR_REGISTRY_TOKEN to a
    token that may read it"""

    slug = "repository-missing"
    status = 404


class RepositoryGated(PullFailed):
    """{repo} is gated: accept its terms at {base}/{repo}, then set BLAZAR_REGISTRY_TOKEN to a token of the account that
    accepted them"""

    slug = "repository-gated"
    status = 403


class TokenRefused(PullFailed):
    """{base} does not let this token read {repo}; see that BLAZAR_REGISTRY_TOKEN is right and not expired, and that its
    account may read {repo}"""

    slug = "token-refused"
    status = 403


class RegistryUnreachable(PullFailed):
    """{base} cannot be asked for {repo}: {reason}; see that this machine reaches it, or set BLAZAR_REGISTRY_BASE to a
    mirror"""

    slug = "registry-unreachable"


class PullOffline(PullFailed):
    """{name} would have to be downloaded, and {variable} is set; unset it, or pull a GGUF file of this machine:
    `blazar pull ./file.gguf`"""

    slug = "pull-offline"
    status = 409


class BuildMissing(PullFailed):
    """{repo} has no build {wanted}; it has {builds}"""

    slug = "build-missing"
    status = 404


class NothingFits(PullFailed):
    """no build of {name} fits this machine: the smallest, {smallest}, has {size}, and {budget}; ask for a build by name
    to have it anyway: `blazar pull {name}:{smallest}`"""

    slug = "nothing-fits"
    status = 400


class DownloadFailed(BlazarError):
    """could not download {url}: {reason}; {remedy}"""

    slug = "download-failed"
    status = 502


class DownloadUnauthorised(DownloadFailed):
    """could not download {url}: the server wants to know who asks (401){more}; {remedy}"""

    slug = "download-unauthorised"


class DownloadForbidden(DownloadFailed):
    """could not download {url}: the server does not let you have it (403){more}; {remedy}"""

    slug = "download-forbidden"


class DownloadMissing(DownloadFailed):
    """could not download {url}: the server has no such file ({code}); see that the address is right"""

    slug = "download-missing"
    status = 404


class DownloadLimited(DownloadFailed):
    """could not download {url}: the server asks for a pause ({code}){pause}; what has come is kept, try again later"""

    slug = "download-limited"
    status = 503


class DownloadChanged(DownloadFailed):
    """could not download {url}: {reason}; nothing of it was kept, {remedy}"""

    slug = "download-changed"


class DownloadStopped(BlazarError):
    """the download of {url} was stopped; what has come is kept, ask for it again to go on"""

    slug = "download-stopped"
    status = 503


class DiskFull(StoreUnwritable):
    """{path} needs {needed} more and its file system has {free} left; free some space, or choose another `--data-dir`;
    {kept}"""

    slug = "disk-full"


# -- requests ----------------------------------------------------------------------------------------


class RequestRefused(BlazarError):
    """{message}"""

    slug = "request-refused"
    status = 400


class NotCapable(RequestRefused):
    """{model} does not support {capability}: it has no {capability!r} among its capabilities ({has}); `blazar show
    NAME` tells what a model can do"""

    slug = "model-not-capable"


class NotShown(RequestRefused):
    """{model} cannot be shown {what}: {reason}; {remedy}"""

    slug = "model-cannot-see"


class MediaUnread(RequestRefused):
    """the engine of {model} cannot read a picture, sound or film in the request: it is damaged, or it is WebP or a film
    and the engine finds no ffmpeg; send it whole, a picture as PNG or JPEG, or have ffmpeg and ffprobe installed where
    Blazar runs (`video_ffmpeg_dir` names their folder)"""

    slug = "media-unread"


class InputTooLong(RequestRefused):
    """input {number} of {count} is {tokens} tokens long, and {model} takes at most {limit}; shorten it, or send it in
    parts"""

    slug = "input-too-long"


class DocumentTooLong(RequestRefused):
    """the document is {tokens} tokens long, and {model} takes at most {limit} with late chunking: {lever}; send it in
    several requests"""

    slug = "document-too-long"
    status = 413


class PreviousMissing(RequestRefused):
    """the earlier response {id!r} is not kept here for this API key; send the conversation as `input` instead, or see
    that its responses are stored: they are for {days} days, unless sent with `store` false"""

    slug = "previous-response-not-found"


class NotCancellable(RequestRefused):
    """the response {id!r} has ended ({status}); only one that is still being written can be cancelled"""

    slug = "not-cancellable"


class ResponseCancelled(BlazarError):
    """this response was cancelled by a request of its own client"""

    slug = "response-cancelled"
    status = 409


class RequestCancelled(BlazarError):
    """this request was cancelled on the server (`blazar requests --cancel`, or DELETE /api/requests)"""

    slug = "request-cancelled"
    status = 410


class RequestMissing(BlazarError):
    """no request {id!r} is under way here that this API key may cancel; GET /api/requests lists those that are"""

    slug = "request-missing"
    status = 404


class StoredMissing(BlazarError):
    """no {what} {id!r} is kept here for this API key; those sent with `store` are kept for {days} days, and the oldest
    go first when they are too many"""

    slug = "stored-missing"
    status = 404


class MessageBatchMissing(BlazarError):
    """no message batch {id!r} is kept here for this API key; GET /v1/messages/batches lists those that are"""

    slug = "message-batch-missing"
    status = 404


class MessageBatchRuns(RequestRefused):
    """message batch {id!r} has not ended, so it cannot {wanted}; {lever}"""

    slug = "message-batch-runs"


class MessageBatchCancelled(BlazarError):
    """this request's batch was cancelled by its own client"""

    slug = "message-batch-cancelled"
    status = 409


class MessageBatchTooLarge(BlazarError):
    """a message batch of {what} is too large, it may have {most} requests with {most_bytes}; send several"""

    slug = "message-batch-too-large"
    status = 413


class MessageBatchesFull(BlazarError):
    """with this one the API key would have {count} message batches with {size}, and it may have {most} with
    {most_bytes}; delete some that have ended: DELETE /v1/messages/batches/ID"""

    slug = "message-batches-full"
    status = 429


class FileMissing(BlazarError):
    """no file {id!r} is kept here for this API key; GET /v1/files lists those that are"""

    slug = "file-missing"
    status = 404


class FilesFull(BlazarError):
    """this API key has {count} files with {size} here, and may have {most} with {most_bytes}; delete some of them with
    DELETE /v1/files/ID"""

    slug = "files-full"
    status = 413


class FileInUse(BlazarError):
    """file {id!r} is read by batch {batch!r}; cancel that first, or wait for its end"""

    slug = "file-in-use"
    status = 409


class FileTooLarge(BlazarError):
    """the file is over the limit of {limit}; split it into several batches"""

    slug = "file-too-large"
    status = 413


class BatchMissing(BlazarError):
    """no batch {id!r} is kept here for this API key; GET /v1/batches lists those that are"""

    slug = "batch-missing"
    status = 404


class ListenersFull(BlazarError):
    """{most} clients listen to events already, which is the limit; end one of them, or ask again later"""

    slug = "listeners-full"
    status = 429


class BatchesFull(BlazarError):
    """this API key has {active} batches that are not done yet, which is the limit; wait for one, or cancel it"""

    slug = "batches-full"
    status = 429


class BatchEnded(BlazarError):
    """batch {id!r} is {state}, so there is nothing to cancel"""

    slug = "batch-ended"
    status = 409


class ModelUnnamed(RequestRefused):
    """say which model is meant: ?model=NAME; loaded are: {loaded}"""

    slug = "model-unnamed"


class ModelNotLoaded(BlazarError):
    """{model} is not loaded, so its engine has nothing to show; ask it something first, or load it with
    `blazar run {model}`"""

    slug = "model-not-loaded"
    status = 409


class ModerationRefused(RequestRefused):
    """texts are not moderated here: no open model judges by the categories of /v1/moderations; ask a model of your own
    with /v1/chat/completions and a `response_format`, or send this to the service that you trust with it"""

    slug = "moderation-refused"


class KnobRefused(RequestRefused):
    """{knob} is not available here: {reason}; {remedy}"""

    slug = "knob-refused"


class ThreadRefused(KnobRefused):
    """{knob} is not available here: {reason}; {remedy}"""

    slug = "thread-refused"


class BodyTooLarge(BlazarError):
    """the request body is over the limit of {limit}; send less, or raise max_body_mb"""

    slug = "body-too-large"
    status = 413


class HeadRefused(RequestRefused):
    """the head of this request breaks the rules of HTTP: {reason}"""

    slug = "head-refused"


class HeadTooLarge(HeadRefused):
    """the head of this request is over the limit of {limit}; send fewer and shorter header fields"""

    slug = "head-too-large"
    status = 431


class ExpectationRefused(HeadRefused):
    """`Expect: {expectation}` cannot be met; leave it out, or send `Expect: 100-continue`"""

    slug = "expectation-refused"
    status = 417


class RequestStalled(BlazarError):
    """nothing of the request's {part} came for {limit}; send it again, without pauses"""

    slug = "request-stalled"
    status = 408


class CodingRefused(BlazarError):
    """a body with `Content-Encoding: {coding}` is not read here; send it uncompressed"""

    slug = "coding-refused"
    status = 415


class HostRefused(BlazarError):
    """{host!r} is not a name of this machine, and without API keys Blazar answers to no other, so that no web page
    can reach it under a name of its own; use localhost or 127.0.0.1, or set [[keys]]"""

    slug = "host-refused"
    status = 403


class Unauthenticated(BlazarError):
    """this server needs an API key: send `Authorization: Bearer <key>` or `x-api-key: <key>`"""

    slug = "unauthenticated"
    status = 401


class KeyUnknown(Unauthenticated):
    """the API key that was sent is not one of this server's: it was mistyped, or taken back; `blazar keys add` makes
    a new one"""

    slug = "key-unknown"


class KeyGone(Unauthenticated):
    """the API key that made this batch is no longer among [[keys]], so the rest of the batch is not run"""

    slug = "key-gone"


class ModelForbidden(BlazarError):
    """API key {key_name!r} may not use model {model!r}; it may use: {allowed}"""

    slug = "model-forbidden"
    status = 403


class OwnerOnly(BlazarError):
    """API key {key_name!r} is for certain models, and {path} is of the whole server; use a key without `models`"""

    slug = "owner-only"
    status = 403


class QuotaExceeded(BlazarError):
    """API key {key_name!r} may have {limit} = {allowed}, and has {used}; try again in {wait}"""

    slug = "quota-exceeded"
    status = 429

    def __init__(self, message: str | None = None, *, retry_after: float | None = None, limit: str = "",
                 **facts: Any) -> None:
        super().__init__(message, retry_after=retry_after, limit=limit, **facts)
        self.limit = limit
        """The setting that was reached: rpm, tpm, daily_tokens or max_concurrent."""


class DailyQuotaExceeded(QuotaExceeded):
    """API key {key_name!r} may have {limit} = {allowed}, and has {used}; the next day begins at midnight UTC,
    in {wait}"""

    slug = "daily-quota-exceeded"


class Saturated(BlazarError):
    """server busy: {model} has no slot free; try again in {wait}"""

    slug = "saturated"
    status = 503


class QueueFull(Saturated):
    """server busy, please try again in {wait}: {count} requests wait for {model} already, and max_queued allows no
    more"""

    slug = "queue-full"


class QueueYielded(Saturated):
    """server busy, please try again in {wait}: max_queued lets {limit} requests wait for {model}, and this one, the
    last of those who had most waiting, made room for another API key"""

    slug = "queue-yielded"


class QueueTimeout(Saturated):
    """server busy, please try again in {wait}: this request has waited for {model} as long as queue_timeout_secs
    allows ({limit}), and others still came first"""

    slug = "queue-timeout"


class RouteNotFound(BlazarError):
    """nothing is served at {method} {path}; {remedy}"""

    slug = "route-not-found"
    status = 404


class MethodRefused(BlazarError):
    """{path} does not answer {method}; it answers {allowed}"""

    slug = "method-refused"
    status = 405


# -- children ----------------------------------------------------------------------------------------


class LoadFailed(BlazarError):
    """{model} did not load: {reason}{output}"""

    slug = "load-failed"
    status = 503


class FitRefused(LoadFailed):
    """{model} does not fit: it needs {needed}, and {limit}; {levers}, or see `blazar fit {model}`"""

    slug = "fit-refused"
    status = 507


class NotGguf(LoadFailed):
    """{model} is a model in {format} format, and only GGUF models are planned; `blazar show {model}` tells its size"""

    slug = "not-gguf"
    status = 400


class LoadTimeout(LoadFailed):
    """{model} was not ready within {limit}{output}; raise model_load_timeout_secs if the machine is slow"""

    slug = "load-timeout"
    status = 504


class EngineMissing(LoadFailed):
    """no engine can serve {model}: {reason}; get one with `blazar engine update` or `blazar engine install
    embedded`, put llama-server on PATH, or set BLAZAR_ENGINE_PATH"""

    slug = "engine-missing"


class EngineGone(LoadFailed):
    """the engine build {tag} cannot serve {model}: {reason}; choose another with `blazar engine use TAG` or install it
    again with `blazar engine update`"""

    slug = "engine-gone"


class EnginePinUnknown(LoadFailed):
    """{model} is pinned to the engine {pin!r}, and there is none of that name: {known}; mend `engine` in its
    [model_overrides], or install that build"""

    slug = "engine-pin-unknown"


class AdapterPathRefused(LoadFailed):
    """{model} did not load: its adapter lies at {path}, and engines take adapters as a list with commas, colons and
    quotes; choose a `--data-dir` without such signs in its path"""

    slug = "adapter-path-refused"


class FlagMissing(LoadFailed):
    """{model} did not load: {what} needs another engine, since {engine} {lack}; `blazar engine list` shows those that
    are here, `blazar engine update` gets the newest"""

    slug = "flag-missing"


class RouterMissing(LoadFailed):
    """router = true has no effect: the engine {engine} has no {flag}, so each model gets a child of its own;
    `blazar engine update` installs a llama.cpp build that has it, or set router = false"""

    slug = "router-missing"


class ExtraArgsRefused(LoadFailed):
    """{model} did not load: {flag} in its extra_args {problem}; {remedy}"""

    slug = "extra-args-refused"


class SocketPathTooLong(LoadFailed):
    """{model} did not load: its socket {path} would need {size} bytes, of which {too_long}, and the system has room for
    {limit}; choose a shorter one of the two, or set child_transport = "tcp\""""

    slug = "socket-path-too-long"


class RpcWorkersGone(LoadFailed):
    """{model} did not load: rpc_servers names workers that do not answer: {workers}; start them with `blazar rpc
    worker` on their machines, or take them out of rpc_servers; `blazar rpc status` asks them all"""

    slug = "rpc-workers-gone"


class LaunchFileMissing(LoadFailed):
    """{model} did not load: there is no file {path}, which {what} names; correct the path, or remove {what}"""

    slug = "launch-file-missing"


class ArchitectureUnknown(LoadFailed):
    """{model} did not load: its architecture is {architecture!r}, which this engine does not know; {remedy}"""

    slug = "architecture-unknown"


class BuildNotFound(BlazarError):
    """there is no engine build {tag!r} here, {known}; `blazar engine list` shows them, `blazar engine update` gets the
    newest"""

    slug = "build-not-found"
    status = 404


class EngineToolMissing(BlazarError):
    """{where}; `blazar engine build cpu` makes a build with all its tools, and a folder that has it can be named with
    BLAZAR_ENGINE_PATH"""

    slug = "engine-tool-missing"
    status = 404


class EngineToolFailed(BlazarError):
    """{tool} could not {task}: {reason}"""

    slug = "engine-tool-failed"


class BuildToolsMissing(BlazarError):
    """cannot build a {flavour} engine here: {missing}"""

    slug = "build-tools-missing"


class BuildFailed(BlazarError):
    """could not build {tag}: {reason}; {remedy}"""

    slug = "build-failed"


class CatalogRefused(BlazarError):
    """the catalog of engine lanes at {url} is not used: {reason}; see `capability_registry_url`"""

    slug = "catalog-refused"
    status = 502


class LaneNotFound(BlazarError):
    """there is no engine lane {name!r}; {known}"""

    slug = "lane-not-found"
    status = 404


class ServiceRefused(BlazarError):
    """the service cannot be managed: {reason}; {remedy}"""

    slug = "service-refused"


class UpgradeRefused(BlazarError):
    """this Blazar is not upgraded by itself: {reason}; {remedy}"""

    slug = "upgrade-refused"
    status = 409


class UpgradeFailed(BlazarError):
    """could not upgrade: {reason}; {remedy}"""

    slug = "upgrade-failed"
    status = 502


class EngineStartFailed(BlazarError):
    """the engine could not start: {reason}"""

    slug = "engine-start-failed"


class ChildFailed(BlazarError):
    """the engine serving {model} failed: {reason}"""

    slug = "child-failed"
    status = 502


class SchemaRefused(RequestRefused):
    """{where} cannot be held to: {problem}; {remedy}"""

    slug = "schema-refused"


class SchemaViolated(BlazarError):
    """the model's answer breaks the structure that was asked for{place}: {problem}; {remedy}"""

    slug = "schema-violated"
    status = 422


class ChildRefused(BlazarError):
    """{message}"""

    slug = "child-refused"
    status = 400

    def __init__(self, message: str | None = None, *, status: int = 400, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.status = status


class RouterBusy(BlazarError):
    """the router could not serve {model} just now: {reason}; try again"""

    slug = "router-busy"
    status = 503


class PromptTooLong(BlazarError):
    """prompt is too long: {tokens} tokens > {limit} maximum of {model} as it runs; shorten it, or {lever}"""

    slug = "prompt-too-long"
    status = 400


class ChildSilent(BlazarError):
    """the engine serving {model} sent no answer within {limit}; stream the request, or raise
    child_header_timeout_secs"""

    slug = "child-silent"
    status = 504


class ChildWedged(BlazarError):
    """the engine serving {model} came to a standstill and was ended; send the request again"""

    slug = "child-wedged"
    status = 502


class ReleasesUnreachable(BlazarError):
    """the releases at {url} could not be read: {reason}; what is installed stays as it is, try again later"""

    slug = "releases-unreachable"
    status = 502


class ReleaseNotFound(BlazarError):
    """there is no engine release {tag} of {repo}; `blazar engine check` tells the newest"""

    slug = "release-not-found"
    status = 404


class NoAssetHere(BlazarError):
    """engine release {tag} has no build {wanted} for this machine ({arch}); it has {offered}: choose one with
    `engine_asset = "..."`, or build it here with `blazar engine build cpu`"""

    slug = "no-asset-here"
    status = 404


class ArchiveRefused(BlazarError):
    """{name} was not unpacked: {reason}; nothing of it was kept"""

    slug = "archive-refused"
    status = 502


class BuildRefused(BlazarError):
    """{tag} is not taken into use: {reason}; {remedy}"""

    slug = "build-refused"
    status = 409


class BuildInUse(BlazarError):
    """{tag} is {reason}, so it is not removed; {remedy}"""

    slug = "build-in-use"
    status = 409


class EnginesBusy(BlazarError):
    """another `blazar engine` command changes the engines of {data_dir} at this moment; wait for its end, then try
    again"""

    slug = "engines-busy"
    status = 409


class TooManyConnections(BlazarError):
    """{limit} connections are open, as many as this server has descriptors for; close idle ones and try again, or raise
    its limit of open files: LimitNOFILE= of the unit, `ulimit -n` of a shell"""

    slug = "too-many-connections"
    status = 503
    usual_pause = 1.0


class ShuttingDown(BlazarError):
    """Blazar is stopping and ended this request; try again when it is back"""

    slug = "shutting-down"
    status = 503


class SupervisorGone(BlazarError):
    """the supervisor does not answer, so {what} cannot be done now; see that `blazar serve` runs, then try again"""

    slug = "supervisor-gone"
    status = 503
    usual_pause = 2.0


class LinkClosed(SupervisorGone):
    """the control connection closed before {what} was answered; see that `blazar serve` runs, then try again"""

    slug = "link-closed"


def all_errors() -> dict[str, type[BlazarError]]:
    """Every error class by slug. A test asserts that no slug is used twice."""
    found: dict[str, type[BlazarError]] = {}
    pending: list[type[BlazarError]] = [BlazarError]
    while pending:
        kind = pending.pop()
        found[kind.slug] = kind
        pending.extend(kind.__subclasses__())
    return found


def revive(plain: dict[str, Any]) -> BlazarError:
    """The error that `to_dict` flattened; an unknown slug becomes a plain BlazarError with the same status."""
    kind = all_errors().get(plain.get("slug", ""), BlazarError)
    error = kind(plain["message"], retry_after=plain.get("retry_after"))
    error.status = plain.get("status", kind.status)
    return error
