"""The RPC systems compared by rpc.py, one file each."""

SYSTEMS = {
    "raw-tcp": "peers.raw_tcp:RawTcp",
    "grpcio": "peers.grpcio_sync:GrpcioSync",
    "grpcio-aio": "peers.grpcio_aio:GrpcioAio",
    "axon-ecrg": "peers.axon_ecrg:AxonEcrg",
    "pyro5": "peers.pyro5_msgpack:Pyro5Msgpack",
    "paceline": "peers.paceline_axon:Paceline",
    "paceline-coro": "peers.paceline_axon:PacelineCoro",
    "paceline-tls": "peers.paceline_axon:PacelineTls",
}
"""Name on the command line and in results, and the class; imported only where it is measured."""

__all__ = ["SYSTEMS"]
