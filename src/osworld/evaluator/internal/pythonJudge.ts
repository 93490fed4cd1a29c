/**
 * The programs that judge an agent's Python, run in the desktop by `guestPython`, whose modules they use.
 *
 * What the agent wrote runs in a process of its own, in a group of its own that is killed afterwards. It cannot mix its
 * output with the verdict's, and it cannot make the judgement fail: faults are those that the gold file alone shows.
 */
import * as PythonLiteral from "../../../desktop/PythonLiteral.js"

/** Seconds. The guest stops a program after 30. */
export const limits = { test: 20, program: 10 }

/** Bytes that a program may write to a file, its output included. */
const maxOutput = 16 * 1024 * 1024

const preface = `
def say(**verdict):
    print(json.dumps(verdict), flush=True)
    sys.exit(0)

def stop(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()

def bound():
    resource.setrlimit(resource.RLIMIT_FSIZE, (${maxOutput}, ${maxOutput}))

def run(command, seconds, **how):
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=bound, **how
    )
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        stop(process)

def gold_tree(name):
    try:
        with open(name, "rb") as file:
            return ast.parse(file.read())
    except (SyntaxError, ValueError) as error:
        say(fault="the gold file is no Python: " + str(error))
`

/** Runs in the agent's process: what it says comes over a pipe of its own. */
const tester = `import sys
sys.path = [place for place in sys.path if place]
import importlib.util, json, math, os
pipe, name, function = int(sys.argv[1]), sys.argv[2], sys.argv[3]
sys.path.insert(0, os.getcwd())
sys.dont_write_bytecode = True
score = 0.0
try:
    spec = importlib.util.spec_from_file_location("deskhand_test", os.path.abspath(name))
    module = importlib.util.module_from_spec(spec)
    sys.modules["deskhand_test"] = module
    spec.loader.exec_module(module)
    result = getattr(module, function)()
    if isinstance(result, (int, float)):
        score = 0.0 if math.isnan(result) else min(1.0, max(0.0, float(result)))
    else:
        score = 1.0 if result else 0.0
except BaseException:
    score = 0.0
os.write(pipe, json.dumps(score).encode())
os._exit(0)
`

/** Calls a function of the file `test`, which imports the files beside it, and says what it gave as a score. */
export const testSuite = (test: string, functionName: string, seconds: number = limits.test): string => `${preface}
test, function = ${PythonLiteral.fromString(test)}, ${PythonLiteral.fromString(functionName)}
tree = gold_tree(test)
names = set()
for node in ast.walk(tree):
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        names.add(node.name)
    elif isinstance(node, ast.Name):
        names.add(node.id)
    elif isinstance(node, ast.alias):
        names.add(node.asname or node.name)
if function not in names and "*" not in names:
    say(fault="the test suite has no function " + function)
reader, writer = os.pipe()
command = [sys.executable, "-c", ${PythonLiteral.fromString(tester)}, str(writer), test, function]
run(command, ${seconds}, pass_fds=[writer], stdout=subprocess.DEVNULL)
os.close(writer)
os.set_blocking(reader, False)
try:
    said = os.read(reader, 100)
except BlockingIOError:
    said = b""
try:
    score = float(said)
except ValueError:
    score = 0.0
say(score=score if 0.0 <= score <= 1.0 else 0.0)
`

/** Runs two programs and says whether they print the same, apart from white space at the end. */
export const sameOutput = (program: string, gold: string): string => `${preface}
program, gold = ${PythonLiteral.fromString(program)}, ${PythonLiteral.fromString(gold)}
gold_tree(gold)

def output(name):
    with open(name + ".out", "wb") as file:
        code = run([sys.executable, "-B", name], ${limits.program}, stdout=file)
    with open(name + ".out", "rb") as file:
        return file.read().rstrip() if code == 0 else None

wanted = output(gold)
if wanted is None:
    say(fault="the gold file fails, or does not end")
# The other program shall find nothing to copy.
for name in [gold, gold + ".out"]:
    os.remove(name)
say(score=1.0 if output(program) == wanted else 0.0)
`
