"""A plan measured by a real Slurm of one node, which this test starts in a folder of its own: controller,
node daemon and munge under the present user, on ports of their own. Skips where Slurm is not installed
(Debian: slurm-wlm and munge).

    sweep_slurm_test.py BUILD
"""
import getpass
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from assay_sweep import servers, store  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
# Debian keeps daemons there, and users' paths leave it out
SBIN = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scontrol")
CELLS = ["qk len=256 needles=56 d=32 k=f16,q8_0,q4_0 seed=1,2,3,4 backend=cpu"]
MAX_ARRAY, LIMIT = 3, 300  # fewer tasks than shards; seconds that any step may take
CONFIG = """ClusterName=assay
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MaxArraySize={most}
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    return [name for name in NEEDED if not shutil.which(name, path=SBIN)]


def rows(path):
    return {found["cell"]: store.measured(found) for _, found in store.Store(path).lines() if "cell" in found}


@unittest.skipIf(missing(), f"Slurm is not installed: no {', '.join(missing())}")
class Slurm(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="sweep_slurm_")
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        for name in ("state", "spool", "munge"):
            os.mkdir(f"{self.folder}/{name}", 0o700)
        os.chmod(self.folder, 0o755)  # munge's clients need to reach its socket
        with open(f"{self.folder}/munge/key", "wb") as file:
            os.chmod(file.name, 0o600)
            file.write(os.urandom(1024))
        with open(f"{self.folder}/slurm.conf", "w", encoding="utf-8") as file:
            file.write(CONFIG.format(host=socket.gethostname().split(".")[0], controller=servers.free_port(),
                                     daemon=servers.free_port(),
                                     user=getpass.getuser(), folder=self.folder, most=MAX_ARRAY,
                                     cpus=len(os.sched_getaffinity(0))))
        self.environment = {**os.environ, "PATH": SBIN, "SLURM_CONF": f"{self.folder}/slurm.conf"}
        munge = [f"--{what}={self.folder}/munge/{what}" for what in ("pid-file", "log-file", "seed-file")]
        self.daemon("munged", "--foreground", "--force", f"--key-file={self.folder}/munge/key",
                    f"--socket={self.folder}/munge.socket", *munge)
        self.until("munge's socket", lambda: os.path.exists(f"{self.folder}/munge.socket"))
        self.daemon("slurmctld", "-D", "-i", "-f", f"{self.folder}/slurm.conf")
        self.daemon("slurmd", "-D", "-f", f"{self.folder}/slurm.conf")
        self.until("an idle node", lambda: "idle" in self.run_("sinfo", "-h", "-o", "%t").stdout.split())

    def daemon(self, *command):
        with open(f"{self.folder}/{command[0]}.out", "wb") as log:
            process = subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

    def run_(self, *command):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=LIMIT)

    def sweep(self, *words):
        return self.run_(sys.executable, f"{BUILD}/assay-sweep", *words)

    def until(self, what, holds):
        end = time.monotonic() + LIMIT
        while not holds():
            if time.monotonic() > end:
                said = "".join(f"\n{name}: {open(name, errors='replace').read()[-1500:]}"
                               for name in glob.glob(f"{self.folder}/*.out"))
                self.fail(f"{what}: not within {LIMIT} s{said}")
            time.sleep(0.2)

    def test_a_planned_array_measures_what_one_run_does(self):
        jobs, merged, plain = f"{self.folder}/jobs", f"{self.folder}/merged.jsonl", f"{self.folder}/plain.jsonl"
        done = self.sweep("plan", "kernel", *CELLS, "--slurm", jobs, "--minutes", "0.0001", "--throttle", "1",
                          "--store", merged)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(f"{jobs}/job.sbatch", encoding="utf-8") as file:
            self.assertRegex(file.read(), rf"--array=0-{MAX_ARRAY - 1}%1\n")
        shards = glob.glob(f"{jobs}/shard-*.cells")
        self.assertGreater(len(shards), MAX_ARRAY)
        done = self.run_("sbatch", "--parsable", f"{jobs}/job.sbatch")
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        self.until("the job's end", lambda: not self.run_("squeue", "-h", "-j", job).stdout.strip())
        states = re.findall(r"JobState=(\S+)", self.run_("scontrol", "show", "job", job).stdout)
        self.assertEqual(set(states), {"COMPLETED"}, states)
        done = self.sweep("merge", "--store", merged, *glob.glob(f"{jobs}/shard-*.jsonl"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("12 cells added", done.stdout)
        self.assertEqual(self.sweep("kernel", *CELLS, "--store", plain, "-q").returncode, 0)
        self.assertEqual(rows(merged), rows(plain))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
