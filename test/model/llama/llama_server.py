"""llama.cpp's own server, of the PyPI package xllamacpp, for the model at a path. Prints its address; ends with its stdin."""

import os
import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_parallel = 2
params.n_ctx = 1024
params.cpuparams.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address + "/v1", flush=True)
sys.stdin.read()
# Threads that serve are not waited for.
os._exit(0)
