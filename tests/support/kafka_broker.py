"""A real Kafka broker without Docker: the server's jars from Maven, one KRaft node on loopback."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sandgauge_demo.loopback import free_ports
from support.build_cache import building, fingerprint
from support.certificate import make_certificate
from support.real_parts import require
from support.waiting import wait_until

USER, PASSWORD = "poller", "a-password-of-the-tests"

# The release whose behaviour the tests know; it moves by hand.
_POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>example.invalid</groupId>
  <artifactId>broker</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.1.0</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies"
# Groups settle at once, and a silent member may count as dead after a second, so that a test need not wait long.
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
auto.create.topics.enable=false
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
"""
# Beside the plain listener one that speaks TLS and asks for a password; of a setting the last word counts.
_SECURED = """\
listeners=PLAINTEXT://127.0.0.1:{port},SECURED://127.0.0.1:{secured},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SECURED://127.0.0.1:{secured}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL,CONTROLLER:PLAINTEXT
listener.name.secured.sasl.enabled.mechanisms=PLAIN
listener.name.secured.plain.sasl.jaas.config={login} required user_{user}="{password}";
listener.name.secured.ssl.keystore.type=PEM
listener.name.secured.ssl.keystore.location={identity}
"""
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
# What a cluster may be set to, and the pollers' client cannot read: their topics must say otherwise.
_UNREADABLE = "compression.type=zstd\n"
# Clusters do so unless they are told not to.
_MAKES_TOPICS = "auto.create.topics.enable=true\n"
_START_S = 180.0


class KafkaBroker:
    """One broker; `start` may be called again after `kill`: same addresses, same data.

    At `secured_address` it speaks TLS with a certificate signed by `authority`, and lets in `USER` with `PASSWORD`.
    """

    def __init__(self, parts: Path, folder: Path, *, makes_topics: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._port, controller, secured = free_ports(3)
        self.address = f"127.0.0.1:{self._port}"
        self.secured_address = f"127.0.0.1:{secured}"
        self.authority = make_certificate(folder)
        identity = folder / "identity.pem"
        identity.write_text(self.authority.with_name("key.pem").read_text() + self.authority.read_text())
        self.log_file = folder / "broker.log"
        shutil.copytree(parts / "formatted", folder / "data")
        settings = folder / "server.properties"
        settings.write_text(
            _SETTINGS.format(port=self._port, controller=controller, logs=folder / "data")
            + _SECURED.format(
                port=self._port,
                controller=controller,
                secured=secured,
                login=_LOGIN,
                user=USER,
                password=PASSWORD,
                identity=identity,
            )
            + _UNREADABLE
            + (_MAKES_TOPICS if makes_topics else "")
        )
        self._command = (*_java(parts), "kafka.Kafka", str(settings))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process and return once it takes connections."""
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        process = self._process
        wait_until(
            lambda: process.poll() is not None or self._answers(), timeout_s=_START_S, what="a broker that is ready"
        )
        if process.poll() is not None:
            raise RuntimeError(f"the broker ended with {process.returncode}: {self.log_file.read_text()[-2000:]}")

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False


@contextmanager
def kafka_broker(folder: Path, *, makes_topics: bool = False) -> Iterator[KafkaBroker]:
    """Run a broker, which may make topics that are asked for; without Java or Maven the test is skipped, or fails."""
    broker = KafkaBroker(_parts(), folder, makes_topics=makes_topics)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def _parts() -> Path:
    """Return a folder with the server's jars and a node's empty data, made once."""
    java, maven = shutil.which("java"), shutil.which("mvn")
    require("Java and Maven", java and maven, "on Debian: apt install openjdk-17-jre-headless maven")
    with building(f"kafka-{fingerprint([_POM.encode(), _SETTINGS.encode()])}") as folder:
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            pom, settings = partial / "pom.xml", partial / "server.properties"
            pom.write_text(_POM)
            settings.write_text(_SETTINGS.format(port=1, controller=2, logs=partial / "formatted"))
            _run(str(maven), "--quiet", "--batch-mode", "--file", str(pom), _COPY, "-DoutputDirectory=jars")
            cluster = "c2FuZGdhdWdlLXRlc3RzMQ"
            _run(*_java(partial), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings))
            partial.rename(folder)
    return folder


def _java(parts: Path) -> tuple[str, ...]:
    return ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{parts}/jars/*")


def _run(*command: str) -> None:
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        error.add_note(f"{error.stdout}{error.stderr}")
        raise
