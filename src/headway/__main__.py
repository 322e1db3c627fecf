from headway.surfaces.cli.main import run

run()
